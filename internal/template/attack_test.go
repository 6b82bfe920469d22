package template

import (
	"strings"
	"testing"
)

var payloads = []string{
	"$(touch pwned)", "`touch pwned`", "a[$(touch pwned)]", "'; touch pwned; '", "\"; touch pwned; \"", "x\nE\ntouch pwned\n", "touch pwned",
}

// TestPayloadsFindNoWayIntoACommand runs commands that are known for taking their arguments for code. What they print does not
// matter, and many fail.
func TestPayloadsFindNoWayIntoACommand(t *testing.T) {
	scripts := strings.Split(strings.TrimSpace(strings.ReplaceAll(attackList, "BQ", "`")), "\n")
	unfold := strings.NewReplacer("NL", "\n", "HERE", "${item.v}")
	for _, shell := range shells("sh", "bash") {
		t.Run(shell, func(t *testing.T) {
			t.Parallel()
			for i, s := range scripts {
				if !testing.Short() || i%5 == 0 {
					attack(t, shell, unfold.Replace(s))
				}
			}
		})
	}
}

func attack(t *testing.T, shell, script string) {
	t.Helper()
	tmpl, err := Compile(script, Options{Names: testNames, Shell: shell})
	if err != nil {
		return
	}
	dir := t.TempDir()
	for _, payload := range payloads {
		inv, err := tmpl.Bind(values{"item": Value{}.With(map[string]Value{"v": Text(payload)})})
		if err != nil {
			continue
		}
		_, _ = run(t.Context(), shell, dir, inv)
		if len(pwned(dir)) > 0 {
			t.Errorf("%s: %q as %q ran the payload %q", shell, script, inv.Script, payload)
			return
		}
	}
}

// attackList holds a script a line: HERE is the placeholder, NL a line break, BQ a backquote.
const attackList = `
echo $(( ${x:-HERE} ))
a=(1 2); echo ${a[HERE]}
a[HERE]=1
x=abc; echo ${x:HERE}
x=abc; echo ${x:0:HERE}
[[ abc == HERE ]]; echo
[[ abc =~ HERE ]]; echo
let x=HERE
let "x=HERE"
let 'x=HERE'
(( x = HERE ))
echo $[ HERE ]
x=HERE; echo $((x))
x=HERE; ((x++))
declare -A m; m[HERE]=1
declare -a m=([HERE]=1)
x='HERE'; eval "echo \"\$x\""
eval 'echo "HERE"'
eval echo '"HERE"'
bash -c 'echo $((HERE))'
bash -c "echo \$((HERE))"
bash -c "eval 'echo \"HERE\"'"
bash <<ENLecho 'HERE' "HERE" HERENLE
bash <<'E'NLeval 'echo HERE'NLE
bash <<ENLcat <<FNLHERENLFNLE
x=$(bash <<ENLecho HERENLENL)
x=BQecho "HERE"BQ
x=BQecho 'HERE'BQ
x="BQecho 'HERE'BQ"
x="BQecho "HERE"BQ"
x=BQecho \BQecho HERE\BQBQ
x="BQecho \BQecho HERE\BQBQ"
x="BQecho \"HERE\" \BQecho \\\"HERE\\\"\BQBQ"
cat <(echo HERE)
echo > >(cat) HERE
f() { echo "$@"; }; f HERE
echo {a,HERE}
echo ${x/a/HERE}
x=abc; echo "${x/b/HERE}"
x=abc; echo ${x//HERE/z}
echo ${x:=HERE} "${y:=HERE}"
x=a; echo ${x^^HERE}
coproc cat HERE
trap "echo HERE" EXIT
trap -- "echo 'HERE'" 0
env A=HERE sh -c 'echo "$A" HERE'
xargs -I{} sh -c 'echo HERE' </dev/null
echo a | xargs -n1 sh -c 'echo "$1" HERE' _
timeout 5 bash -c 'echo HERE'
command eval "echo HERE"
command -- eval "echo HERE"
\eval "echo HERE"
builtin eval "echo HERE"
"eval" "echo HERE"
e''val "echo HERE"
. /dev/stdin <<ENLecho HERENLE
source /dev/stdin <<< 'echo HERE'
/bin/sh -c 'echo HERE'
sh -c -- 'echo HERE'
sh +e -c 'echo HERE'
bash --norc -c 'echo HERE'
bash -o pipefail -c 'echo HERE'
bash -euo pipefail -c 'echo HERE'
bash --rcfile x -c 'echo HERE'
bash -c 'echo HERE' -c HERE
sh -c $'echo \'HERE\''
sh -c $'echo HERE'
sh -c "echo "'HERE'
sh -c echo\ HERE
sh -c "$(echo 'echo hi')" HERE
y='a b'; sh -c "echo $y HERE"
sh -c "echo '$y' \"HERE\""
y="'"; sh -c "echo $y HERE $y"
printf "HERE"
test HERE -eq 1
[ 1 -eq HERE ]
[ -n HERE -a HERE -lt 3 ]
if [[ ! ( HERE -lt 3 ) ]]; then :; fi
typeset -i x; x=HERE
readonly -i x=HERE
OPTIND=HERE
for ((i=HERE;i<1;i++)); do :; done
exit HERE
wait HERE
printf -v x %s HERE; echo $x
x=HERE; [[ $x -eq 1 ]]
x=HERE; a=(1); echo ${a[$x]}
x=HERE; a=(1); echo ${a[x]}
export x=HERE; bash -c 'echo $((x))'
x=HERE; sh -c 'echo $((x))'
x="HERE" bash -c 'echo $((x))'
x=HERE; y=$x; echo $((y))
x=(HERE); echo $((x))
x+=HERE; echo $((x))
for x in HERE; do echo $((x)); done
: ${x:=HERE}; echo $((x))
cat <<-'E'NL	HERENL	E
cat <<E'F'NLHERENLEF
cat <<"E"NLa\NLHERENLE
echo "${u-'HERE'}" "${u+'HERE'}"
echo "${u:-"HERE"}"
echo ${u:-"'HERE'"}
cat <<ENL${u:-'HERE'} ${u:-"HERE"}NLE
su -c 'echo HERE'
flock . -c 'echo HERE'
flock . sh -c 'echo HERE'
script -qc 'echo HERE' /dev/null
script -c 'echo HERE' /dev/null
find . -maxdepth 0 -exec sh -c 'echo HERE' \; -exec bash -c "echo 'HERE'" \;
mapfile -C 'echo HERE' -c 1 x < /dev/null
mapfile -t x <<< HERE; echo "${x[@]}"
PS4='HERE'; set -x; :
BASH_ENV=HERE bash -c :
export PS4=HERE; set -x; :
declare -n r=HERE; echo $r
x=HERE; declare -n r=x; echo $r
test -v HERE
bash -c "x=HERE; echo \$((x))"
sh -c 'eval "echo HERE"'
sh -c "sh -c \"echo 'HERE'\""
if sh -c 'echo HERE'; then :; fi
! sh -c 'echo HERE'
{ sh -c 'echo HERE'; } >/dev/null
time sh -c 'echo HERE'
PATH=$PATH sh -c "echo 'HERE'"
exec sh -c 'echo HERE'
if true; then exec bash -c "echo HERE"; fi
sh -c 'echo "'"HERE"'"'
sh -c 'echo '\''HERE'\'''
sh -xc "echo HERE"
sh -c 'cat <<F
bash -s HERE <<'E'NLecho "$1" HERENLE
bash /dev/stdin <<'E'NLecho HERENLE
bash - <<'E'NLecho HERENLE
setsid -w sh -c 'echo HERE'
stdbuf -o0 sh -c 'echo HERE'
nice -n 5 bash -c 'echo HERE'
`
