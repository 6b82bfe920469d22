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
		{`f() { shift; eval "$@"; }; f ${item.v} ls`, warned},
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

		{`c=${item.v}; c=ls; eval "$c"`, warned},
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

func diagText(diags []Diag) string {
	lines := make([]string, len(diags))
	for i, d := range diags {
		lines[i] = d.String()
	}
	return strings.Join(lines, "\n")
}
