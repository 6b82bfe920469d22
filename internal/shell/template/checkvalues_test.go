package template

import (
	"strings"
	"testing"
)

// TestValuesThatAreRunAreTold holds where a value, or a variable that the script gives it, is run: error when
// it surely is, warning when it may be, nothing when it is data, or when nobody can say.
func TestValuesThatAreRunAreTold(t *testing.T) {
	names := namesOf([]string{"item", "map", "env", "shell"}, []string{"item", "cap", "item_id", "item_index"}).
		With("fixed", Name{Declared: true, Constant: true}).With("items_file", Name{Root: true, Declared: true, Constant: true})
	const refused, warned, fine = "error", "warning", ""
	for _, c := range []struct{ src, want string }{
		// Code of another shell, or of this one.
		{`eval "$cap"`, refused},
		{`eval ${cap#x}`, refused},
		{`trap "$cap" EXIT`, refused},
		{`sh -c "echo ${cap%.x}"`, refused},
		{`sh -c "$PRODIGY_ITEM"`, refused},
		{`eval "echo $PRODIGY_ITEM_ID"`, refused},
		{`sh -c 'eval "$1"' _ ${item.v}`, refused},
		{`S="sh -c"; $S "x ${item.v}"`, refused},
		{`env -S "${item.v}"`, refused},
		{`xargs $cap < list`, refused},
		{`echo ${item.v} | xargs -0 sh -c`, refused},
		{`sh ${item.v|file}`, refused},
		{`. ${item.v}`, warned},
		{`${RUNNER} -c "x ${item.v}"`, warned},
		{`sh -c "echo $cap"`, fine},                 // it becomes \$cap
		{`S=sh; c=-c; "$S" $c "x ${item.v}"`, fine}, // code like that of sh -c
		{`E=eval; $E "x ${item.v}"`, fine},
		{`eval "${x/a/$cap}"`, refused},
		{`for f in a; do echo ${item.v}; done | sh`, refused},
		{`eval "$(<"$PRODIGY_ITEM_FILE")"`, refused},
		{`eval "echo $fixed"`, fine},
		{`sh -c 'echo "$1"' _ ${item.v}`, fine},
		{`sh script.sh ${item.v}`, fine},
		{`bash -s -- ${item.v} < script`, fine},
		{`eval "echo ${item.v|url}"; eval "echo ${item_index}"`, fine},
		{`eval "$(ssh-agent)"; p ${item.v}`, fine},

		// What a shell reads.
		{`echo "${item.v}" | sh`, refused},
		{`echo ${item.v} | env sh -s a b`, refused},
		{`echo ${item.v} | cat | sh`, refused},
		{`echo ${item.v} | { cat; } | sh`, refused},
		{`printenv PRODIGY_ITEM | sh`, refused},
		{`x=$cap; bash <<< "$x"`, refused},
		{`sh < <(echo ${item.v})`, refused},
		{`source <(echo ${item.v})`, refused},
		{`eval "$(cat "$PRODIGY_ITEM_FILE")"`, refused},
		{`sh -c "p $(echo ${item.v})"`, refused},
		{`sh -c "p $(gen ${item.v})"`, warned},
		{`echo ${item.v} | tr a b | sh`, warned},
		{`echo ${item.v} | sort | uniq -c`, fine},
		{`eval "y=$(echo ${item.v} | wc -l)"`, fine},

		// A variable that the script gives the value.
		{`c="echo ${item.v}"; sh -c "set -e; $c"`, refused},
		{`c=${item.v}; d="x $c"; eval "$d"`, refused},
		{`c=ls; c="$c ${item.v}"; eval "$c"`, refused},
		{`c=(ls ${item.v}); eval "${c[@]}"`, refused},
		{`for c in ${item.list[*]}; do eval "$c"; done`, refused},
		{`x=${item.v} sh -c 'eval "$x"'`, refused},
		{`env -u a x=${item.v} sh -c 'eval "$x"'`, refused},
		{`export c=${item.v}; sh -c 'eval "$c"'`, refused},
		{"read -r c <<E\n${item.v}\nE\neval \"$c\"", refused},
		{`echo ${item.v} | while read -r n; do eval "$n"; done`, refused},
		{`while read -r x; do eval "$x"; done < ${items_file}`, refused},
		{`printf -v c %s ${item.v}; eval "$c"`, refused},
		{`: ${c:=${item.v}}; eval "$c"`, refused},
		{`d=${item.v}; ssh h "cd $d && make"`, refused},
		{`c=${item.v}; sh <<E` + "\np '$c'\nE", refused},
		{`d=/tmp/${item_id}; trap "rm -f $d" EXIT`, refused},
		{`c=$(gen ${item.v}); eval "$c"`, warned},
		{`c=a; t && c=${item.v}; eval "$c"`, warned},
		{`c=${item.v}; sh -c 'eval "$c"'`, fine}, // it is not exported
		{`c=${item.v}; eval 'echo "$c"'`, fine},
		{`c="echo ${item.v|sh}"; sh -c "$c"`, fine},
		{`c=${item.v}; eval "echo ${#c} ${c@Q} ${c:+x} v_${c//[!a-z]/}"`, fine},
		{`x=${item.v}; x=${x//[!a-zA-Z0-9_]/}; eval "v_$x=1"`, fine},
		{`printf -v c '%q ' ${item.v}; eval "echo $c"`, fine},
		{`if [ "$cap" = a ]; then eval "$cap"; fi`, fine},
		{`case $cap in *[!0-9]*) exit 1;; esac; eval "$cap"`, fine},
		{`x=${item.v}; [[ $x =~ ^[0-9]+$ ]] || exit 0; eval "y=$x"`, fine},
		{`f() { eval "$1"; }; f a; g ${item.v}`, fine},

		// A command, and what says which command it is.
		{`$cap --version`, refused},
		{`env A=1 $cap`, refused},
		{`timeout 5 $cap`, refused},
		{`"$cap" --version`, warned},
		{`$fixed run`, fine},
		{`"$PRODIGY_ITEM"`, fine},
		{`env "PS4=${item.v}" bash -xc :`, refused},
		{`x=${item.v}; export LD_PRELOAD=$x; ls`, refused},
		{`GIT_SSH_COMMAND="ssh -i ${item.v}" git fetch`, refused},
		{`PATH=${item.v}:$PATH`, warned},

		// Names of variables, and arithmetic.
		{`x=${item.v}; echo "${!x}"`, refused},
		{`x=${item.v}; echo "${x@P}"`, refused},
		{`x=${item.v}; [[ -v $x ]]`, refused},
		{`x=${item.v}; printf -v "$x" y; read "$x"`, refused},
		{`x=${item.v}; declare "$x"=1`, refused},
		{`n=$(echo ${item.v}); echo $((n + 1))`, refused},
		{`while read -r n; do echo $((n)); done <<< ${item.v}`, refused},
		{`read n <<< ${item.v}; y=abc; echo ${y:n}`, refused},
		{`y[$PRODIGY_ITEM]=1`, refused},
		{`echo $((PRODIGY_ITEM))`, fine},
		{`n=$(cat ${map.results_file}); echo $((n))`, fine},
		{`n=$(wc -l < ${item.v}); echo $((n + 1))`, fine},
		{`read n <<< ${item.v}; case $n in *[!0-9]*) exit 1;; esac; echo $((n))`, fine},
		{`declare -A m; k=${item.v}; m[$k]=1; echo "${m[$k]}"`, fine},

		{`echo $(( $(cut -d: -f1 <<< ${item.v}) + 1 ))`, refused},
		{`a[$(tr -d x <<< ${item.v})]=1`, refused},
		{`echo ${a[$(jq -r . <<< ${item.v|json})]}`, refused},
		{`let n=$(echo ${item.v} | tr a b)`, refused},
		{`echo $(( $(wc -l < ${item.v}) + 1 ))`, fine},

		// What the code of eval assigns is known in it and after it.
		{`eval 'S="sh -c"; $S "echo ${item.v}"'`, refused},
		{`eval 'E=eval; $E "echo ${item.v}"'`, refused},
		{`S=echo; eval 'S=sh; $S -c "echo ${item.v}"'`, refused},
		{`eval 'S="sh -c"'; $S "echo ${item.v}"`, refused},

		// What two shells read is quoted for one.
		{`eval "eval echo ${item.v|sh}"`, refused},
		{`ssh a "ssh b echo ${item.v|sh}"`, refused},
		{`ssh a "ssh b echo ${item.v|int}"`, fine},
		{`sh -c "sh -c 'echo ${item.v|raw}'"`, warned},

		// Code of other languages.
		{`x=${item.v}; awk "{ print \"$x\" }"`, warned},
		{`perl -ne "print if /$cap/"`, warned},
		{`sed "s/a/$cap/"`, warned},
		{`echo "print('${item.v}')" | python3`, warned},
		{`awk -v v="${item.v}" 'BEGIN { print v }'`, fine},
		{`jq --arg v ${item.v} '.v = $v' f`, fine},
		{`python3 -c 'import sys; print(sys.argv[1])' ${item.v}`, fine},
	} {
		t.Run(c.src, func(t *testing.T) {
			tmpl, err := Compile(c.src, Options{Names: names})
			got := fine
			if err != nil {
				got = refused
			} else if text := diagText(tmpl.Diags); strings.Contains(text, "PS10") || strings.Contains(text, "PS110") || strings.Contains(text, "PS119") {
				got = warned
			}
			if got != c.want {
				t.Errorf("got %q (%v), want %q", got, err, c.want)
			}
		})
	}
}

func TestFindingsNameThePlaceOfTheirValue(t *testing.T) {
	_, err := Compile(`echo ${item.v}; eval $(echo ${item.v:-})`, Options{Names: testNames})
	if want := `1:29: PS119 ${item.v:-} reaches shell code; use ${item.v|sh} there, outside the quotes of that code`; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

// TestNestedCodeHasABound also holds the time: quotes within quotes grow with each level.
func TestNestedCodeHasABound(t *testing.T) {
	for _, src := range []string{
		strings.Repeat("eval ", 20) + "${item.v}",
		strings.Repeat("eval ", 200) + "p ${item.v}",
		strings.Repeat("eval ", 20) + "$cap",
		strings.Repeat("command eval ", 30) + "p ${item.v}",
	} {
		_, err := Compile(src, Options{Names: testNames.With("cap", Name{Declared: true})})
		if err == nil || !strings.Contains(err.Error(), "PS028") {
			t.Errorf("%q: got %v, want PS028", src, err)
		}
	}
	if _, err := Compile(strings.Repeat("eval ", 5)+"p ${item.v}", Options{Names: testNames}); err != nil {
		t.Errorf("five levels: %v", err)
	}
}

func diagText(diags []Diag) string {
	lines := make([]string, len(diags))
	for i, d := range diags {
		lines[i] = d.String()
	}
	return strings.Join(lines, "\n")
}
