package template

import (
	"strings"
	"testing"
)

// TestValuesThatReachCodeAreToldOnTheirWay shows the ways by which a value gets to where a shell evaluates it, behind the back of
// its own place: error when it surely does, warning when it may, nothing when it cannot.
func TestValuesThatReachCodeAreToldOnTheirWay(t *testing.T) {
	const refused, warned, fine = "error", "warning", ""
	for _, c := range []struct{ src, want string }{
		{`c="echo ${item.v}"; sh -c "$c"`, refused},
		{`c="echo ${item.v}"; sh -c "set -e; $c"`, refused},
		{`c=${item.v}; eval "$c"`, refused},
		{`c=${item.v}; eval $c`, refused},
		{`c=${item.v}; d="x $c"; eval "$d"`, refused},
		{`c=ls; c="$c ${item.v}"; eval "$c"`, refused},
		{`c=ls; c+=" ${item.v}"; eval "$c"`, refused},
		{`c=(ls ${item.v}); eval "${c[@]}"`, refused},
		{`if t; then c=${item.v}; fi; eval "$c"`, refused},
		{`for c in ${item.list[*]}; do eval "$c"; done`, refused},
		{`export c=${item.v}; sh -c 'eval "$c"'`, refused},
		{`f() { eval "$1"; }; f ${item.v}`, refused},
		{`f() { eval "$1"; }; f a; f ${item.v}; f b`, refused},
		{`f() { local c=$1; eval "echo $c"; }; f ${item.v}`, refused},
		{`f() { eval "$@"; }; f echo ${item.v}`, refused},
		{`f() { shift; eval "$@"; }; f x ${item.v}`, refused},
		{`f() { shift; eval "$@"; }; f ${item.v} ls`, fine},
		{`source <(echo ${item.v})`, refused},
		{`set -- ${item.v}; eval "$1"`, refused},
		{`sh -c 'eval "$1"' _ ${item.v}`, refused},
		{`read -r c <<< ${item.v}; eval "$c"`, refused},
		{"read -r c <<E\n${item.v}\nE\neval \"$c\"", refused},
		{`printf -v c %s ${item.v}; eval "$c"`, refused},
		{`: ${c:=${item.v}}; eval "$c"`, refused},
		{`c=$(echo ${item.v}); eval "$c"`, refused},
		{`sh -c "p $(echo ${item.v})"`, refused},
		{`sh -c "p $(basename ${item.v})"`, refused},
		{`tmp=/tmp/${item.v}; trap "rm -f $tmp" EXIT`, refused},
		{`d=${item.v}; ssh h "cd $d && make"`, refused},
		{`c=${item.v}; sh <<E` + "\np '$c'\nE", refused},
		{`c=${item.v}; bash <<< "$c"`, refused},
		{`c=${item.v}; echo "$c" | sh`, refused},
		{`echo "${item.v}" | sh`, refused},
		{`eval "echo ${API_KEY#k}"`, refused},
		{`eval "echo ${count:-x}"`, fine},
		{`x=${item.v}; echo "${!x}"`, refused},
		{`x=${item.v}; echo "${x@P}"`, refused},
		{`x=${item.v}; [[ -v $x ]]`, refused},
		{`x=${item.v}; test -v "$x"`, refused},
		{`x=${item.v}; printf -v "$x" y`, refused},
		{`x=${item.v}; read "$x"`, refused},
		{`x=${item.v}; declare "$x"=1`, refused},
		{`x=${item.v}; unset "$x"`, refused},
		{`n=$(echo ${item.v}); echo $((n + 1))`, refused},
		{`y=${item.v|sh}; sh -c "p '$y'"`, refused},

		{`exec 3> >(sh); echo ${item.v} >&3`, refused},
		{`exec 3> >(cat); echo ${item.v} >&3`, fine},
		{`echo ${item.v} 3> >(sh) >&3`, refused},
		{`c="echo ${item.v}"; echo "$c" | xargs -0 sh -c`, refused},
		{`c="echo ${item.v}"; echo "$c" | xargs -d '\n' sh -c`, refused},
		{`c="echo ${item.v}"; echo "$c" | xargs --null sh -c`, refused},
		{`c="echo ${item.v}"; echo "$c" | xargs -0 sh -c 'echo "$1"' _`, fine},
		{`read -r y c <<< "y ${item.v}"; sh -ec $c`, refused},
		{`read -r y c <<< "y ${item.v}"; sh -c 'echo "$1"' _ $c`, fine},

		{`c=${item.v}; c=ls; eval "$c"`, fine},
		{`while t; do eval "$c"; c=${item.v}; done`, warned},
		{`c=$(gen ${item.v}); eval "$c"`, warned},
		{`sh -c "p $(gen ${item.v})"`, warned},

		{`c="echo ${item.v|sh}"; sh -c "$c"`, fine},
		{`c=${item.v}; export c; sh -c 'echo "$c"'`, fine},
		{`c=${item.v}; sh -c 'echo "$1"' _ "$c"`, fine},
		{`c=${item.v}; eval 'echo "$c"'`, fine},
		{`c=${item.v}; trap 'rm -f "$c"' EXIT`, fine},
		{`c=$(mktemp); trap "rm -f $c" EXIT; p ${item.v}`, fine},
		{`d=/tmp/${item_id}; trap "rm -f $d" EXIT`, refused},
		{`d=/tmp/${item_index}; trap "rm -f $d" EXIT`, fine},
		{`f=${map.results_file}; sh -c "p $f"`, fine},
		{`f() { eval "$1"; }; f a; g ${item.v}`, fine},
		{`f() { eval "$1"; }; g() { p "$1"; }; g ${item.v}; f a`, fine},
		{`f() { eval "$1"; }; f a ${item.v}`, fine},
		{`n=$(wc -l < ${item.v}); echo $((n + 1))`, fine},
		{`n=$(echo ${item.v} | wc -l); echo $((n + 1))`, fine},
		{`c=${item.v}; eval "echo ${#c}"`, fine},
		{`c=${item.v}; echo "$c" | sort`, fine},
		{`c=${item.v}; sh script.sh "$c"`, fine},
		{`c=${item.v|int}; sh -c "exit $c"`, fine},
		{`n=${item.v}; echo $((n + 1))`, fine},
		{`x=$PRODIGY_X0; p ${item.v}`, fine},
	} {
		t.Run(c.src, func(t *testing.T) {
			tmpl, err := Compile(c.src, Options{Names: testNames})
			got := fine
			if err != nil {
				got = refused
			} else if text := diagText(tmpl.Diags); strings.Contains(text, "PS107") || strings.Contains(text, "PS119") {
				got = warned
			}
			if got != c.want {
				t.Errorf("got %q (%v), want %q", got, err, c.want)
			}
		})
	}
}

// TestEveryNameThatBringsDataIsFollowed holds what is true of ${item.v} against the other names that bring data, and against detours.
func TestEveryNameThatBringsDataIsFollowed(t *testing.T) {
	names := namesOf([]string{"item", "map", "env", "shell"}, []string{"item", "cap", "p", "vars"}).With("fixed", Name{Declared: true, Constant: true})
	const refused, warned, fine = "error", "warning", ""
	for _, c := range []struct{ src, want string }{
		// Names that the shell itself expands.
		{`sh -c "echo $cap"`, fine}, // it becomes \$cap
		{`eval "echo $cap"`, fine},
		{`trap "rm $cap" EXIT`, fine},
		{"sh <<E\necho $cap\nE", fine},
		{`find . -exec sh -c "echo $cap" \;`, fine},
		{`sh -c "echo ${cap%.x}"`, refused},
		{`eval "$cap"`, refused},
		{`eval "$p"`, refused},
		{`eval "$vars"`, refused},
		{`eval ${cap#x}`, refused},
		{`trap "$cap" EXIT`, refused},
		{`$cap`, refused},
		{`$cap --version`, refused},
		{`"$cap" --version`, warned},
		{`exec $cap`, refused},
		{`env A=1 $cap`, refused},
		{`timeout 5 $cap`, refused},
		{`xargs $cap < list`, refused},
		{`x=$cap; eval "$x"`, refused},
		{`echo $cap | sh`, refused},
		{`printf '%s\n' "$p" | bash -s`, refused},
		{`sh -c "$PRODIGY_ITEM"`, refused},
		{`eval "echo $PRODIGY_ITEM_ID"`, refused},
		{`printenv PRODIGY_ITEM | sh`, refused},
		{`n=$(printenv cap); echo $((n))`, refused},
		{`eval "echo $fixed"`, fine},
		{`sh -c "make $fixed"`, fine},
		{`$fixed run`, fine},

		// Detours.
		{`while read -r n; do echo $((n)); done <<< ${item.v}`, refused},
		{"while read -r n; do echo $((n)); done <<E\n${item.v}\nE", refused},
		{`while read -r n; do eval "$n"; done <<< ${item.v}`, refused},
		{`echo ${item.v} | while read -r n; do eval "$n"; done`, refused},
		{`echo ${item.v} | { read n; sh -c "$n"; }`, refused},
		{`x=${item.v} sh -c 'eval "$x"'`, refused},
		{`env x=${item.v} sh -c 'eval "$x"'`, refused},
		{`env -u a x=${item.v} sh -c 'eval "$x"'`, refused},
		{`echo ${item.v} | sh -`, refused},
		{`echo ${item.v} | sh -s a b`, refused},
		{`echo ${item.v} | sh -e`, refused},
		{`echo ${item.v} | sh /dev/stdin`, refused},
		{`echo ${item.v} | env sh`, refused},
		{`echo ${item.v} | cat | sh`, refused},
		{`echo ${item.v} | tr a b | sh`, warned},
		{`echo ${item.v} | tee >(sh)`, refused},
		{`echo ${item.v} > >(sh)`, refused},
		{`sh < <(echo ${item.v})`, refused},
		{`c=${item.v}; $c`, refused},
		{`c=${item.v}; "$c"`, warned},
		{`S=sh; $S -c "x ${item.v}"`, fine}, // it becomes \$PRODIGY_V0
		{`${S:-sh} -c "x ${item.v}"`, fine},
		{`S=sh; S=$T; $S -c "x ${item.v}"`, warned},
		{`S="sh -c"; $S "x ${item.v}"`, refused},
		{`S=sh; c=-c; "$S" $c "x ${item.v}"`, refused},
		{`${RUNNER} -c "x ${item.v}"`, warned},
		{`set -- ${item.v}; echo $(($1))`, refused},
		{`set -- ${item.v}; for i in "$@"; do echo $((i)); done`, refused},
		{`set -- ${item.v}; for i; do eval "$i"; done`, refused},
		{`set -- a ${item.v}; shift; eval "$1"`, refused},
		{`set -- "" ${item.v}; eval "$2"`, refused},
		{`set -- ${item.list[*]}; shift; shift; eval "$1"`, refused},
		{`set -- ${item.v}; while [ $# -gt 0 ]; do eval "$1"; shift; done`, refused},
		{`set -- -x ${item.v}; while [ $# -gt 0 ]; do case $1 in -x) eval "$2"; shift;; esac; shift; done`, refused},
		{`read x <<< ${item.v}; ((x))`, refused},
		{`read m <<< ${item.v}; let "m=n+1"`, fine},
		{`read n <<< ${item.v}; let "m=n+1"`, refused},
		{`declare -i m; read m <<< ${item.v}`, refused},
		{`read n <<< ${item.v}; unset x[n]`, refused},
		{`read n <<< ${item.v}; [[ -v x[n] ]]`, refused},
		{`read n <<< ${item.v}; RANDOM=$n`, refused},
		{`read n <<< ${item.v}; test -v "x[$n]"`, refused},
		{`read n <<< ${item.v}; printf -v "x[n]" y`, refused},
		{`read n <<< ${item.v}; y=abc; echo ${y:n}`, refused},
		{`read n <<< ${item.v}; m=n; echo $((m))`, refused},
		{`read n <<< ${item.v}; case $n in *[!0-9]*) exit 1;; esac; echo $((n))`, fine},
		{`read n <<< ${item.v}; [[ $n =~ ^[0-9]+$ ]] || exit 1; echo $((n))`, fine},
		{`read n <<< ${item.v}; if [[ $n =~ ^[0-9]+$ ]]; then echo $((n)); fi`, fine},
		{`read n <<< ${item.v}; case $n in *[!0-9]*) exit 1;; esac; read n <<< ${item.v}; echo $((n))`, refused},
		{`env "PS4=${item.v}" bash -xc :`, refused},
		{`env BASH_ENV=${item.v} bash -c :`, refused},
		{`x=${item.v}; export LD_PRELOAD=$x; ls`, refused},
		{`PYTHONSTARTUP=${item.v} python3`, refused},
		{`GIT_SSH_COMMAND="ssh -i ${item.v}" git fetch`, refused},
		{`NODE_OPTIONS="--require ${item.v}" node x.js`, refused},
		{`PERL5OPT=${item.v} perl x.pl`, refused},
		{`PATH=${item.v}:$PATH`, warned},
		{`env -S "${item.v}"`, refused},
		{`echo ${item.v} > f; sh f`, refused},
		{`echo ${item.v} > ./f; . ./f`, refused},
		{`f=$(mktemp); echo ${item.v} > "$f"; bash "$f"`, refused},
		{"cat > f <<E\n${item.v}\nE\neval \"$(cat f)\"", refused},
		{`echo ${item.v} | xargs sh -c`, refused},
		{`echo ${item.v} | xargs -I{} sh -c 'echo {}'`, refused},
		{`f() { "$@"; }; f eval ${item.v}`, refused},
		{`f() { sh -s; }; echo ${item.v} | f`, refused},
		{`[[ ${item.v} =~ (.*) ]]; eval "${BASH_REMATCH[1]}"`, refused},
		{`echo ${item.v}; eval "$_"`, refused},
		{`read <<< ${item.v}; eval "$REPLY"`, refused},
		{`exec 3<<< ${item.v}; read -u 3 x; eval "$x"`, refused},
		{`x=${item.v}; y=x; eval "echo \$$y"`, fine}, // the variable is only expanded
		{`x=${item.v}; y=x; eval "eval \"\$$y\""`, refused},
		{`x=${item.v}; n=x; eval "${!n}"`, refused},
		{`f() { [ -n "$2" ] && f "$2"; eval "$1"; }; f a ${item.v}`, refused},
		{`x=${item.v}; awk "{ print \"$x\" }"`, warned},
		{`x=${item.v}; python3 -c "print('$x')"`, warned},
		{`x=${item.v}; perl -ne "print if /$x/"`, warned},
		{`x=${item.v}; sed "s/a/$x/"`, warned},
		{`echo "print('${item.v}')" | python3`, warned},
		{`c="p '${item.v|sh}'"; sh -c "$c"`, refused},
		{`sh ${item.v}`, warned},
		{`x=${item.v}; sh $x`, refused},
		{`. ${item.v}`, warned},

		{`eval "$(cat "$PRODIGY_ITEM_FILE")"`, refused},
		{`sh "$PRODIGY_ITEM_FILE"`, refused},
		{`sh ${item.v|file}`, refused},
		{`n=$(jq .n "$PRODIGY_ITEM_FILE"); echo $((n))`, warned},
		{`cat "$PRODIGY_ITEM_FILE" ${item.v|file}`, fine},
		{`x=$(echo ${item.v} | tr -dc 0-9); echo $((x))`, fine},
		{`x=$(awk -v v=${item.v} 'BEGIN { print v }'); read "y[$x]"`, warned},
		{`x=$(gen ${item.v}); read "$x"`, warned},
		{`x=$(gen ${item.v}); PERL5OPT=$x perl x.pl`, warned},
		{`awk -f <(echo ${item.v}) f`, warned},
		{`sed -f - f <<< ${item.v}`, warned},
		{`sed -f <(echo ${item.v|url}) f`, warned}, // 1ecommand
		{`sed "s/a/${item.v|url}/e" f`, warned},
		{`sed "s/a/${item.v|url}/" f`, fine},
		{`set -- y ${item.v}; sh -c "echo ${@:2}"`, refused},
		{`compgen -C "${item.v|url}"`, refused},
		{`read k <<< "$cap"; declare -A m; m[$k]=1; for k in "${!m[@]}"; do eval "$k"; done`, refused},
		{`exec 3> >(sh); echo ${item.v} >&3`, refused},
		{`exec 3> f; echo ${item.v} >&3; sh f`, refused},
		{`x=$(echo ${item.v|url}); (( $x ))`, refused},
		{`exec 3> log; echo ${item.v} >&3`, fine},
		{`exec > >(sh); echo ${item.v}`, refused},
		{`exec > f; echo ${item.v}; sh f`, refused},
		{`declare -n y; y=${item.v}; echo "$y"`, refused},
		{`sh -c 'eval "[ $0 = y ]"' ${item.v}`, refused},
		{`: & wait -n -p "$cap"`, refused},
		{`coproc sh; echo ${item.v} >&"${COPROC[1]}"`, refused},
		{`eval "${item.v|url}"`, warned},
		{`x=${item.v}; export x; y=$(sh -c 'echo "$x"'); eval "$y"`, refused},
		{`eval "make X=${item.v|url}"`, fine},
		{`x=${item.v|url}; sh -c "curl https://h/$x"`, fine},
		{`awk -v v="${item.v}" 'BEGIN { print v }'`, fine},
		{`jq --arg v ${item.v} '.v = $v' f`, fine},
		{`bash -s -- ${item.v} < script`, fine},
		{`x=${item.v}; [[ $x =~ ^[0-9]+$ ]] || exit 0; eval "y=$x"`, fine},
		{`while read -r x; do case $x in *[!0-9]*) exit 1;; esac; y=$x; echo $((y + 1)); done <<< ${item.v}`, fine},

		// Nothing of this runs data.
		{`read -r a b <<< ${item.v}; echo "$a" "$b"`, fine},
		{`x=${item.v} sh -c 'echo "$x"'`, fine},
		{`echo ${item.v} | sort | uniq -c`, fine},
		{`echo ${item.v} | tee log`, fine},
		{`set -- ${item.v}; for i in "$@"; do echo "$i"; done`, fine},
		{`n=$(echo ${item.v} | wc -c); echo $((n - 1))`, fine},
		{`printf -v c '%q ' ${item.v}; eval "echo $c"`, fine},
		{`x=${item.v}; eval "echo ${x@Q}"`, fine},
		{`x=${item.v}; x=${x//[!a-zA-Z0-9_]/}; eval "v_$x=1"`, fine},
		{`x=${item.v}; eval "v_${x//[!a-zA-Z0-9_]/}=1"`, fine},
		{`declare -A m; k=${item.v}; m[$k]=1; echo "${m[$k]}"`, fine},
		{`x=${item.v}; awk -v x="$x" '{ print x }' f`, fine},
		{`x=${item.v}; python3 -c 'import sys; print(sys.argv[1])' "$x"`, fine},
		{`x=${item.v}; sh script.sh "$x"`, fine},
		{`x=${item.v}; bash -c 'echo "$1"' _ "$x"`, fine},
		{`S=sh; $S -c 'echo "$1"' _ ${item.v}`, fine},
		{`x=${item.v}; if [ "$x" = a ]; then eval "ls"; fi`, fine},
		{`x=${item.v}; case $x in a) y=1;; *) y=2;; esac; eval "z=$y"`, fine},
		{`echo ${item.v} > f; cat f`, fine},
		{`cd ${item.v} && ls "$PWD"`, fine},
		{`f() { local x=$1; echo "$x"; }; f ${item.v}; trap f EXIT`, fine},
		{`log() { echo "$@" >&2; }; x=$(log ${item.v}; echo 1); eval "y=$x"`, fine},
		{`eval "$(ssh-agent)"; p ${item.v}`, fine},
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

// TestTheOrderOfAssignmentsAndChecksAreHeeded holds what the analysis knows of the way to a place: what was assigned last there, in which
// process, and what the script has checked.
func TestTheOrderOfAssignmentsAndChecksAreHeeded(t *testing.T) {
	names := namesOf([]string{"item", "map", "env", "shell"}, []string{"item", "cap"}).With("items_file", Name{Root: true, Declared: true, Constant: true})
	for _, c := range []struct {
		src  string
		said bool
	}{
		{`x=$cap; x=a; eval "$x"`, false},
		{`x=$cap; x=a; y=$x; echo $((y))`, false},
		{`x=$cap; if t; then x=a; fi; eval "$x"`, true},
		{`x=$cap; t && x=a; eval "$x"`, true},
		{`x=$cap; case $y in a) x=a;; esac; eval "$x"`, true},
		{`x=$cap; for x in $(l); do :; done; eval "$x"`, true},
		{`for x in $cap; do x=a; eval "$x"; done`, false},
		{`x=a; while t; do eval "$x"; x=$cap; done`, true},
		{`while t; do x=a; eval "$x"; x=$cap; done`, false},
		{`x=a; while t; do : "${y:=$x}"; eval "$y"; x=$cap; done`, true},
		{`y=${cap%z}; env "z=$y" sh -c 'while t; do eval "$x"; x=$z; done'`, true}, // a loop that is read in two ways
		{`y=${cap%z}; sh -c 'x=a; while t; do eval "$x"; x=$1; done' _ "$y"`, true},
		{`f() { x=$cap; }; while t; do eval "$x"; done; f; f`, false}, // called behind the loop
		{`f() { x=$cap; }; while t; do eval "$x"; f; done; f`, true},
		{`y=a; : "${y:=$cap}"; eval "$y"`, false},
		{`while t; do eval "$i"; i=$h; h=$g; g=$f; f=$e; e=$d; d=$c; c=$b; b=$a; a=$cap; done`, true}, // ten rounds
		{`x=a; while t; do while u; do eval "$x"; done; x=$cap; done`, true},
		{`x=$cap; unset x; eval "$x"`, false},
		{`x=$cap; f() { unset x; eval "$x"; }; f`, true}, // the x of a caller, perhaps
		{`unset "$cap"`, true},
		{`x=$cap; x=a < f; eval "$x"`, true},
		{`x=$cap; read -r x; eval "$x"`, false},
		{`x=$cap; read -r x < f; eval "$x"`, true},
		{"x=$cap; read -d '' x <<E\na\nE\neval \"$x\"", true}, // dash has no -d
		{`x=$cap; declare x=a; eval "$x"`, true},              // nor has it declare
		{`x=$cap; printf -v x a; eval "$x"`, true},
		{`x=$cap; export x=a; eval "$x"`, false},
		{`x=$cap; x+=a; eval "$x"`, true},
		{`readonly x=$cap; x=a; eval "$x"`, true},
		{`declare -n y=x; x=a; y=$cap; eval "$x"`, true},
		{`x=$cap; eval 'x=a'; eval "$x"`, false},
		{`x=$cap; eval "x=$y"; eval "$x"`, false},
		{`x=$cap; eval "$y"; eval "$x"`, true},
		{`f() { x=a; }; x=$cap; f; eval "$x"`, true},
		{`f() { local x=a; eval "$x"; }; x=$cap; f`, false},
		{`f() { eval "$x"; }; x=a; f; x=$cap`, false},
		{`f() { eval "$x"; }; x=a; trap f EXIT; x=$cap`, true},
		{`x=a; trap 'eval "$x"' EXIT; x=$cap`, true},
		{`trap 'x=$cap' USR1; x=a; eval "$x"`, true},
		{`f() { x=a; [ -n "$2" ] && f a; eval "$x"; x=$cap; }; f a b`, true},

		// Processes.
		{`x=a; ( x=$cap ); eval "$x"`, false},
		{`x=a; ( x=$cap; eval "$x" )`, true},
		{`x=a; y=$(x=$cap); eval "$x"`, false},
		{`x=a; x=$cap & eval "$x"`, false},
		{`x=a; echo | x=$cap; eval "$x"`, false},
		{`shopt -s lastpipe; x=a; echo | x=$cap; eval "$x"`, true},
		{`x=$cap; sh -c 'eval "$x"'`, false},
		{`x=$cap; export x; sh -c 'eval "$x"'`, true},
		{`set -a; x=$cap; sh -c 'eval "$x"'`, true},
		{`set -o allexport; x=$cap; sh -c 'eval "$x"'`, true},
		{`set -eo allexport; x=$cap; sh -c 'eval "$x"'`, true},
		{`shopt -so allexport; x=$cap; sh -c 'eval "$x"'`, true},
		{`. ./rc; x=$cap; sh -c 'eval "$x"'`, true},
		{`y=$z; export "$y"; x=$cap; sh -c 'eval "$x"'`, true},
		{`sh -c 'f() { trap "echo $0" EXIT; }; f' "$cap"`, true},
		{`f() { eval "$0"; }; f "$cap"`, false},

		// What xargs reads, words split otherwise, parts of the parameters, arrays of two kinds.
		{`echo "${unset:-$cap}" | xargs -0 sh -c`, true},
		{`printf '%q' "$cap" | xargs sh -c 'eval "$1"' _`, true},
		{`printf '%q' "$cap" | xargs -0 sh -c 'eval "echo $1"' _`, false},
		{`x="echo $cap"; IFS=:; set -- $x; eval "$1"`, true},
		{`x="echo $cap"; IFS=:; set -- $x; unset "y[$1]"`, true},
		{`set -- a "$cap"; x=${@: -1}; eval "$x"`, true},
		{`set -- a "$cap"; x=${@:2}; $x`, true},
		{`read -r x <<< "$cap"; y=(1); declare -A y; y["$x"]=1`, true},
		{`read -r x <<< "$cap"; declare -A y; y["$x"]=1; y["$x"]=2`, false},

		{`echo "$PRODIGY_ITEM" | xargs; x=$(echo "$PRODIGY_ITEM" | xargs); "$x"`, true},
		{`f() { if [ "$1" = y ]; then set -- y "$2"; shift; echo "$1" | sh; fi; }; f y "$cap"`, true},
		{`[ ${item.v|words} = a ] || exit; sh -c ${item.v|words}`, true},
		{`env x=$cap true`, true},
		{`env "x=$cap" true`, false},
		{`timeout $cap true`, true},
		{`timeout "$cap" true`, false},
		{`nice -n $cap true`, true},

		// A shell that reads its code from its input goes on with another input.
		{"bash -s \"$cap\" <<'E'\nexec <<< \"$1\"\necho\nE", true},
		{"sh -s \"$cap\" <<'E'\nif t; then exec <<F\n$1\nF\nfi\necho\nE", true},
		{"bash -s \"$cap\" <<'E'\n( exec <<< \"$1\"; read -r x )\necho\nE", false},
		{"bash -s \"$cap\" <<'E'\nexec 3<<< \"$1\"\nread -r x <&3\nE", false},
		{"exec <<< \"$cap\"; read -r x; echo \"$x\"", false},

		// What dash makes of bash.
		{"set -- \"$cap\"\nfunction f {\neval \"$1\"\n}\nf a", true},
		{"set -- \"$cap\"\nf() {\neval \"$1\"\n}\nf a", false},

		// Checks.
		{`[ "$cap" = a ] || exit; eval "$cap"`, false},
		{`[ "$cap" = a ] || exit 1 2> f; eval "$cap"`, true},
		{`[ $cap = a ] || exit; eval "$cap"`, true}, // 1 = 1 -o x
		{`[ "$cap" = "$x" ] || exit; eval "$cap"`, true},
		{`[ "$cap" = a ] || return; eval "$cap"`, true}, // outside a function it does nothing
		{`f() { [ "$1" = a ] || return; eval "$1"; }; f "$cap"`, false},
		{`f() { [ "$1" = a ] || return; set -- "$cap"; eval "$1"; }; f "$cap"`, true},
		{`[ "$cap" = a ] || continue; eval "$cap"`, true},
		{`x=$cap; [ "$x" = a ] || exit; x=$cap; eval "$x"`, true},
		{`x=$cap; [ "$x" = a ] && read -r x <<< "$cap" && eval "$x"`, true},
		{`[ "$cap" != a ] && exit; eval "$cap"`, false},
		{`[ ! "$cap" = a ] && exit; eval "$cap"`, false},
		{`! [ "$cap" = a ] && exit; eval "$cap"`, false},
		{`[ "$cap" = a ] && eval "$cap"`, false},
		{`[ "$cap" = a ] || eval "$cap"`, true},
		{`[ "$cap" = a ] || [ "$cap" = b ] || exit; eval "$cap"`, false},
		{`[ "$cap" = a ] || [ "$x" = b ] || exit; eval "$cap"`, true},
		{`[ "$cap" -eq "$cap" ] || exit; echo $((cap))`, false},
		{`if [ "$cap" = a ]; then eval "$cap"; fi`, false},
		{`if [ "$cap" = a ]; then :; else eval "$cap"; fi`, true},
		{`if [ "$cap" != a ]; then exit 1; fi; eval "$cap"`, false},
		{`if [ "$cap" != a ]; then echo; fi; eval "$cap"`, true},
		{`if [[ $cap == a ]]; then eval "$cap"; fi`, false},
		{`if [[ $cap == a* ]]; then eval "$cap"; fi`, true},
		{`if [[ $cap == "a*" ]]; then eval "$cap"; fi`, false},
		{`if [[ ! $cap =~ ^[0-9]+$ ]]; then exit 1; fi; eval "$cap"`, true}, // dash has no [[
		{`if ! [[ $cap =~ ^[0-9]+$ ]]; then exit 1; fi; eval "$cap"`, false},
		{`[[ $cap =~ ^[a-z0-9_-]+$ ]] || exit; sh -c "make ${cap#x}"`, false},
		{`[[ $cap =~ ^[a-z].*$ ]] || exit; sh -c "make ${cap#x}"`, true},
		{`[[ $cap =~ ^[^a]+$ ]] || exit; sh -c "make ${cap#x}"`, true},
		{`case $cap in a | b) eval "$cap";; esac`, false},
		{`case $cap in a | b*) eval "$cap";; esac`, true},
		{`case $cap in c*) ;& a) eval "$cap";; esac`, true},
		{`case $cap in a | b) ;; *) exit 1;; esac; eval "$cap"`, false},
		{`case $cap in a | b*) ;; *) exit 1;; esac; eval "$cap"`, true},
		{`case '${item.v}' in *[!0-9]*) exit 1;; esac; c=${item.v}; eval "$c"`, false},
		{`if [ "$cap" = a ]; then trap "$cap" EXIT; fi`, false},
		{`if [ "$cap" = a ]; then trap "$cap" EXIT; fi; read -r cap <<< ${item.v}`, true},
		{`case $cap in *[!a-z]*) exit 1;; esac; sh -c "make ${cap#x}"`, false},
		{`f() { eval "$cap"; }; [ "$cap" = a ] || exit; f`, false},

		// JSON and text in quotes are no number, no name and no program, whatever they say.
		{`echo $((PRODIGY_ITEM))`, false},
		{`"$PRODIGY_ITEM"`, false},
		{`read "${PRODIGY_ITEM}"`, false},
		{`set -- $PRODIGY_ITEM; "$2"`, true},
		{`read -r a b <<< "$PRODIGY_ITEM"; echo $((b))`, true},
		{`y[$PRODIGY_ITEM]=1`, true},
		{`read "y[$PRODIGY_ITEM]"`, true},
		{`eval "$PRODIGY_ITEM"`, true},
		{`n=$(cat "$PRODIGY_ITEM_FILE"); echo $((n))`, false},
		{`n=$(jq .n "$PRODIGY_ITEM_FILE"); echo $((n))`, true},
		{`n=$(cat ${map.results_file}); echo $((n))`, false},
		{`n=$(head -1 ${map.results_file}); echo $((n))`, true},
		{`sh -c "$(cat ${map.results_file})"`, true},
		{`n=${map.results}; echo $((n))`, false},
		{`sh ${items_file}`, true},
		{`eval "$(cat "$items_file")"`, true},
		{`while read -r x; do eval "$x"; done < ${items_file}`, true},
		{`while read -r x; do echo "$x"; done < ${items_file}`, false},
		{`x=$cap; x=${x@Q}; echo $((x))`, false},
		{`x=$cap; eval "x=${x@Q}"; eval "$x"`, true},

		// Names that the script chooses itself.
		{`y=x; declare "$y=${item.v}"; echo "$x"`, false},
		{`y=x; export "$y=${item.v}"; sh -c 'eval "$x"'`, true},
		{`y=$cap; export "$y=${item.v}"`, true},
		{`while getopts o: x -o ${item.v} -p "$cap"; do echo "$OPTARG"; done`, false},
		{`while getopts "$cap" x; do :; done`, true},
		{`while getopts o: x -o ${item.v}; do eval "$OPTARG"; done`, true},
		{`PS4="${item.n|int}+"; set -x; :`, false},
	} {
		t.Run(c.src, func(t *testing.T) {
			tmpl, err := Compile(c.src, Options{Names: names})
			said := err != nil
			if err == nil {
				text := diagText(tmpl.Diags)
				said = strings.Contains(text, "PS105") || strings.Contains(text, "PS107") || strings.Contains(text, "PS108") || strings.Contains(text, "PS119")
			}
			if said != c.said {
				t.Errorf("said something: %t (%v), want %t", said, err, c.said)
			}
		})
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
