package template

import (
	"strings"
	"testing"

	"prodigy/internal/testenv"
)

var payloads = []string{
	"$(touch pwned)", "`touch pwned`", "a[$(touch pwned)]", "'; touch pwned; '", "\"; touch pwned; \"", "x\nE\ntouch pwned\n", "touch pwned", "x[$(touch pwned)]=1", "$(touch pwned >&2)1",
}

// TestPayloadsFindNoWayIntoACommand runs commands that are known for taking their arguments for code. What they
// print does not matter, and many fail. Parameters of functions, which are not followed, are not among them.
func TestPayloadsFindNoWayIntoACommand(t *testing.T) {
	scripts := strings.Split(strings.TrimSpace(strings.ReplaceAll(attackList, "BQ", "`")), "\n")
	unfold := strings.NewReplacer("NL", "\n", "HERE", "${item.v}")
	for _, shell := range shells("sh", "bash") {
		t.Run(shell, func(t *testing.T) {
			t.Parallel()
			for i, s := range scripts {
				if i%testenv.OneIn(15, 6) == 0 {
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
c="echo HERE"; sh -c "$c"
c="echo HERE"; sh -c "set -e; $c"
c=HERE; eval "echo $c"
c=HERE; d=$c; eval "echo '$d'"
c=(echo HERE); eval "${c[@]}"
c=(echo HERE); eval "${c[*]}"
export c=HERE; sh -c 'eval "$c"'
sh -c 'eval "$1"' _ HERE
sh -c 'eval "$@"' _ HERE
read -r c <<< HERE; eval "$c"
read -r c <<ENLHERENLENLeval "$c"
printf -v c %s HERE; eval "$c"
mapfile -t c <<< HERE; eval "${c[0]}"
sh -c "$(echo HERE)"
sh -c "echo $(printf %s HERE)"
sh -c "echo BQecho HEREBQ"
t=/tmp/HERE; trap "echo $t" EXIT
echo HERE | sh
c=HERE; echo "$c" | bash
printf '%s' HERE | sh
source <(echo HERE)
bash <(echo HERE)
. <(printf '%s' "HERE")
bash /dev/fd/3 3<<ENLecho HERENLE
sh <<< HERE
c=HERE; sh <<ENLecho $cNLE
f() { echo $(($1)); }; f HERE
f() { echo $(( $1 + 1 )); }; x=HERE; f $x
f() { local n=$1; ((n++)); }; f HERE
f() { local n=$1; echo ${a[n]}; }; f HERE
f() { [[ $1 -eq 1 ]]; }; f HERE
bash -c 'echo $(($1))' _ HERE
bash -c 'n=$1; echo $((n))' _ HERE
read n <<< HERE; echo $((n))
read n <<ENLHERENLENLecho $((n))
n=$(echo HERE); echo $((n))
n="$(printf %s HERE)"; ((n++))
x=HERE; echo "${!x}"
x=HERE; echo "${x@P}"
x=HERE; [[ -v $x ]]
x=HERE; test -v "$x"
x=HERE; [ -v "$x" ]
x=HERE; printf -v "$x" y
x=HERE; read "$x" <<< y
x=HERE; declare "$x"=1
x=HERE; export "$x"=1
x=HERE; unset "$x"
x=HERE; let "y=$x"
x=HERE; declare -i y=$x
x=HERE; y=$((x))
x=HERE; a[$x]=1
x=HERE; declare -A a; a[$x]=1; echo "${a[$x]}"
x=HERE; y=abc; echo "${y:$x}"
for ((i=0; i<HERE; i++)); do break; done
x=HERE; for ((i=x; i<1; i++)); do break; done
x=HERE; case a in $x) ;; "$x") ;; esac
x=HERE; echo ${y/a/$x} ${x/a/&}
x=abc; echo "${x/b/HERE}" "${x//c/HERE}"
IFS=/; x=HERE; echo $x ${x} HERE
set -f; echo HERE *
set -- ; for i in HERE; do echo $i; done
select x in HERE; do break; done </dev/null
coproc X { cat HERE; }; wait
cat <(printf %s HERE) > >(cat)
exec 3<<< HERE; cat <&3
[[ HERE =~ a ]] || [[ a =~ HERE ]]
x=HERE; [[ a =~ $x ]]
echo {1..HERE}
echo a:HERE=~/HERE PATH=HERE
export X=HERE Y="HERE"; readonly Z=HERE
echo -e HERE; printf "%b" HERE
printf '%d' HERE
awk -v x=HERE 'BEGIN { print x }'
make -f /dev/null X=HERE
xargs -I{} echo HERE {} </dev/null
env -S "echo HERE"
git -c alias.x=HERE x
git -c core.pager=HERE --version
cd HERE; pwd
test -e HERE -a HERE
test HERE = HERE -o HERE
[ HERE ]
[ ! HERE ]
kill -0 HERE
ulimit -n HERE
umask HERE
sleep HERE
hash HERE
type HERE
command -v HERE
set -o HERE
shopt -s HERE
enable -f HERE x
help HERE
trap HERE EXIT
trap -- HERE 0
x=HERE; trap "$x" EXIT
x=HERE; trap $x 0
PROMPT_COMMAND=HERE bash -c :
ENV=HERE sh -c :
x=HERE; PS4=$x; set -x; :
x=HERE; BASH_ENV=$x bash -c :
. HERE
source /dev/fd/3 3<<ENLecho HERENLE
exec HERE
getopts HERE x -a
x=HERE; getopts a "$x" -a
wait -p HERE
x=HERE; mapfile -t "$x" </dev/null
fc -s HERE
history -s HERE
bind -x HERE
complete -C HERE x
x=HERE; compgen -W "$x"
declare -p HERE
local HERE
dirs +HERE
printf '%s' "${HERE}"
x=HERE; declare -n r=x; echo "$r"
x=HERE; declare -n r=$x; echo "$r"
: $((x = HERE)); y=HERE; : $(( $y ))
x=HERE; echo $[x]
x=HERE; echo $(( ${x} )) $(( "$x" ))
x=HERE; (( $x ))
x=HERE; exit $x
x=HERE; f() { return $x; }; f
time -p sh -c 'echo HERE'
find . -maxdepth 0 -exec echo HERE {} \;
tar -cf /dev/null --checkpoint=1 HERE .
sort HERE </dev/null
`
