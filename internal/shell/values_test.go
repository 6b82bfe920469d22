package shell

import (
	"strings"
	"testing"
)

// Whatever a script looks like, the check ends, and finds nothing without values.
func FuzzCheckValues(f *testing.F) {
	for _, script := range []string{
		`eval "$V"`, `x=$V; sh -c "$x" _ $V`, `while read -r n; do echo $((n)); done <<< $V`, `env A=$V xargs -I{} sh -c '{}'`,
		"sh <<E\n$V\nE", `declare -A m; m[$V]=1; read "$V"`, `timeout`, `x=sh; $x`, `[[ -v $V ]]; ${!V} ${V@P} ${V:V:V}`, `xargs sh -c`,
	} {
		f.Add(script)
	}
	dialects, _ := Dialects("sh")
	f.Fuzz(func(t *testing.T, script string) {
		if found := CheckValues(script, dialects, nil); found != nil {
			t.Errorf("got %v", found)
		}
		_ = CheckValues(script, dialects, []Value{{Variable: "V", Written: "${item.v}"}, {Variable: "F", File: true}})
	})
}

func TestLongPipesAreCheckedAtOnce(t *testing.T) {
	dialects, _ := Dialects("sh")
	script := `echo "$V"` + strings.Repeat(" | { a && a; }", 40) + " | sh"
	found := CheckValues(script, dialects, []Value{{Variable: "V", Written: "${item.v}"}})
	if len(found) != 1 || found[0].Code != codePiped {
		t.Errorf("got %v, want one finding", found)
	}
}
