//go:build unix

package main

import "slices"

// What docs/interpolation.md says that the promise does not hold for.
const (
	comesBack = "Values that come back through files, pipes (`… | while read x; do eval \"$x\"; done`) or commands other than `echo`, `printf`, `basename` and `dirname` are not followed as code"
	shifted   = "Parameters behind two or more `shift`s, and variables that are set in a sourced file."
	ofProgram = "A program can take its argument for more than data"
)

// flowFamilies are the flows, by kind: a kind is chosen first, so that one with many spellings is not met more often.
var flowFamilies = [][]*production{assignments, assignments, toChildren, reads, parameters, parameters, substitutions, substitutions, files, arrays, expansions, wrappers, wrappers, cleaners}

var assignments = []*production{
	{name: "assign", text: "{x}={W}\n{K}", out: dollar},
	{name: "assign braces", text: "{x}={W}\n{K}", out: "${{x}}"},
	{name: "assign twice", text: "y={W}\n{x}=$y\n{K}", out: dollar},
	{name: "into text of code", text: "{x}=\"echo {T}\"\n{K}", out: dollar},
	{name: "append", text: "{x}=echo\n{x}+=\" {T}\"\n{K}", out: dollar},
	{name: "append in dash", text: "{x}=\n{x}=\"${x}{T}\"\n{K}", out: dollar},
	{name: "declare", text: "declare {x}={W}\n{K}", out: dollar},
	{name: "typeset", text: "typeset {x}={W}\n{K}", out: dollar},
	{name: "readonly", text: "readonly {x}={W}\n{K}", out: dollar},
	{name: "export", text: "export {x}={W}\n{K}", out: dollar},
	{name: "local", text: "{f}() {\nlocal {x}={W}\n{K}\n}\n{f}", out: dollar},
	{name: "for", text: "for {x} in {W}; do\n{K}\ndone", out: dollar},
	{name: "printf -v", text: "printf -v {x} %s {W}\n{K}", out: dollar},
	{name: "printf -v format", text: "printf -v {x} 'echo %s' {W}\n{K}", out: dollar},
	{name: "default assigned", text: ": \"${{x}:={T}}\"\n{K}", out: dollar},
	{name: "in a branch", text: "{x}=fixed\nif true; then\n{x}={W}\nfi\n{K}", out: dollar},
	{name: "by &&", text: "{x}=fixed\ntrue && {x}={W}\n{K}", out: dollar},
	{name: "in a function", text: "{f}() {\n{x}={W}\n}\n{f}\n{K}", out: dollar},
	{name: "eval of an assignment", text: "y={W}\neval '{x}=$y'\n{K}", out: dollar},
	{name: "read-write loop", text: "for i in 1 2; do\nif [ $i = 2 ]; then\n{K}\nfi\n{x}={W}\ndone", out: dollar},
}

// dollar is the variable {x} of a production.
const dollar = "${x}"

var toChildren = []*production{
	{name: "prefix of sh", text: "{x}={W} sh -c {S}", out: dollar},
	{name: "prefix of bash", text: "{x}={W} bash -c {S}", out: dollar},
	{name: "env of sh", text: "env {x}={W} sh -c {S}", out: dollar},
	{name: "env of bash", text: "env \"{x}={T}\" bash -c {S}", out: dollar},
	{name: "exported to sh", text: "export {x}={W}\nsh -c {S}", out: dollar},
	{name: "exported to bash", text: "export {x}={W}\nbash -c {S}", out: dollar},
	{name: "declare -x to bash", text: "declare -x {x}={W}\nbash -c {S}", out: dollar},
	{name: "set -a", text: "set -a\n{x}={W}\nsh -c {S}", out: dollar},
	{name: "exported later", text: "{x}={W}\nexport {x}\nsh <<'E{x}'\n{K}\nE{x}", out: dollar},
	{name: "prefix of eval", text: "{x}={W} eval {S}", out: dollar},
	{name: "prefix of a function", text: "{f}() {\n{K}\n}\n{x}={W} {f}", out: dollar},
}

var reads = []*production{
	{name: "read <<<", text: "read -r {x} <<< {W}\n{K}", out: dollar},
	{name: "IFS= read <<<", text: "IFS= read -r {x} <<< {W}\n{K}", out: dollar},
	{name: "read heredoc", text: "read -r {x} <<E{x}\n{T}\nE{x}\n{K}", out: dollar},
	{name: "read REPLY", text: "read -r <<< {W}\n{K}", out: "$REPLY"},
	{name: "read of two", text: "read -r y {x} <<< \"y {T}\"\n{K}", out: dollar},
	{name: "read -a", text: "read -ra {x} <<< {W}\n{K}", out: "${{x}[0]}"},
	{name: "while read <<<", text: "while read -r {x}; do\n{K}\ndone <<< {W}", out: dollar},
	{name: "while IFS= read heredoc", text: "while IFS= read -r {x}; do\n{K}\ndone <<E{x}\n{T}\nE{x}", out: dollar},
	{name: "read in a group", text: "{ read -r {x}; } <<< {W}\n{K}", out: dollar},
	{name: "read in a function", text: "{f}() {\nread -r {x}\n}\n{f} <<< {W}\n{K}", out: dollar},
	{name: "read from exec", text: "exec 3<<< {W}\nread -r {x} <&3\n{K}", out: dollar},
	{name: "read -u", text: "exec 4<<E{x}\n{T}\nE{x}\nread -r -u 4 {x}\n{K}", out: dollar},
	{name: "read from <(echo)", text: "read -r {x} < <(echo {W})\n{K}", out: dollar, outside: comesBack},
	{name: "echo | while read", text: "echo {W} | while read -r {x}; do\n{K}\ndone", out: dollar, outside: comesBack},
	{name: "printf | { read", text: "printf '%s\\n' {W} | {\nread -r {x}\n{K}\n}", out: dollar, outside: comesBack},
	{name: "echo | ( read", text: "echo {W} | (\nread -r {x}\n{K}\n)", out: dollar, outside: comesBack},
	{name: "while read < <(echo)", text: "while read -r {x}; do\n{K}\ndone < <(printf '%s\\n' {W})", out: dollar, outside: comesBack},
	{name: "mapfile <<<", text: "mapfile -t {x} <<< {W}\n{K}", out: "${{x}[0]}"},
	{name: "readarray <<<", text: "readarray -t {x} <<< {W}\n{K}", out: "${{x}[@]}"},
	{name: "mapfile MAPFILE", text: "mapfile -t <<< {W}\n{K}", out: "${MAPFILE[0]}"},
	{name: "mapfile < <(echo)", text: "mapfile -t {x} < <(echo {W})\n{K}", out: "${{x}[0]}", outside: comesBack},
}

var parameters = []*production{
	{name: "set --", text: "set -- {W}\n{K}", out: "$1"},
	{name: "set -- second", text: "set -- y {W}\n{K}", out: "$2"},
	{name: "set -- all", text: "set -- {W}\n{K}", out: "$@"},
	{name: "set -- joined", text: "set -- echo {W}\n{K}", out: "$*"},
	{name: "set without --", text: "set y {W}\n{K}", out: "$2"},
	{name: "set -- shift", text: "set -- y {W}\nshift\n{K}", out: "$1"},
	{name: "set -- shift 2", text: "set -- y z {W}\nshift 2\n{K}", out: "$1", outside: shifted},
	{name: "for in $@", text: "set -- {W}\nfor {x} in \"$@\"; do\n{K}\ndone", out: dollar},
	{name: "for in $*", text: "set -- {W}\nfor {x} in $*; do\n{K}\ndone", out: dollar},
	{name: "for without in", text: "set -- {W}\nfor {x} do\n{K}\ndone", out: dollar},
	{name: "while shift", text: "set -- {W}\nwhile [ $# -gt 0 ]; do\n{x}=$1\nshift\n{K}\ndone", out: dollar},
	{name: "function", text: "{f}() {\n{K}\n}\n{f} {W}", out: "$1"},
	{name: "function keyword", text: "function {f} {\n{K}\n}\n{f} {W}", out: "$1"},
	{name: "function all", text: "{f}() {\n{K}\n}\n{f} {W}", out: "$@"},
	{name: "function second", text: "{f}() {\n{K}\n}\n{f} y {W}", out: "$2"},
	{name: "function shift", text: "{f}() {\nshift\n{K}\n}\n{f} y {W}", out: "$1"},
	{name: "function local", text: "{f}() {\nlocal {x}=$1\n{K}\n}\n{f} {W}", out: dollar},
	{name: "function of a function", text: "{f}() {\n{K}\n}\ng{f}() {\n{f} \"$1\"\n}\ng{f} {W}", out: "$1"},
	{name: "function passes all", text: "{f}() {\n{K}\n}\ng{f}() {\n{f} \"$@\"\n}\ng{f} {W}", out: "$1"},
	{name: "function sets", text: "{f}() {\n{x}=$1\n}\n{f} {W}\n{K}", out: dollar},
	{name: "function behind command", text: "{f}() {\n{K}\n}\nif {f} {W}; then :; fi", out: "$1"},
	{name: "sh -c argument", text: "sh -c {S} _ {W}", out: "$1"},
	{name: "bash -c argument", text: "bash -c {S} _ {W}", out: "$1"},
	{name: "sh -c all", text: "sh -c {S} _ {W}", out: "$@"},
	{name: "sh -c $0", text: "sh -c {S} {W}", out: "$0"},
	{name: "sh -s argument", text: "sh -s {W} <<'E{x}'\n{K}\nE{x}", out: "$1"},
	{name: "bash -s -- argument", text: "bash -s -- {W} <<'E{x}'\n{K}\nE{x}", out: "$1"},
	{name: "find -exec argument", text: "find . -maxdepth 0 -exec sh -c {S} _ {W} \\;", out: "$1"},
	{name: "xargs argument", text: "echo {W} | xargs sh -c {S} _", out: "$1", outside: comesBack},
	{name: "xargs own argument", text: "echo y | xargs sh -c {S} _ {W}", out: "$1"},
	{name: "getopts", text: "set -- -o {W}\nwhile getopts o: {x}; do\n{K}\ndone", out: "$OPTARG"},
	{name: "getopts of arguments", text: "while getopts o: {x} -o {W}; do\n{K}\ndone", out: "$OPTARG"},
}

var substitutions = []*production{
	{name: "$(echo)", text: "{K}", out: "$(echo \"{T}\")"},
	{name: "$(printf)", text: "{x}=$(printf '%s' {W})\n{K}", out: dollar},
	{name: "$(echo) assigned", text: "{x}=$(echo {W})\n{K}", out: dollar},
	{name: "backquotes", text: "y={W}\n{x}=`echo \"$y\"`\n{K}", out: dollar},
	{name: "$(basename)", text: "{x}=$(basename {W})\n{K}", out: dollar},
	{name: "local $(echo)", text: "{f}() {\nlocal {x}\n{x}=$(echo {W})\n{K}\n}\n{f}", out: dollar},
	{name: "$(cat <<<)", text: "{x}=$(cat <<< {W})\n{K}", out: dollar, outside: comesBack},
	{name: "$(cat heredoc)", text: "{x}=$(cat <<E{x}\n{T}\nE{x}\n)\n{K}", out: dollar, outside: comesBack},
	{name: "$(echo | cat)", text: "{x}=$(echo {W} | cat)\n{K}", out: dollar, outside: comesBack},
	{name: "$(echo | tr)", text: "{x}=$(echo {W} | tr X Y)\n{K}", out: dollar, outside: comesBack},
	{name: "$(echo | tee)", text: "{x}=$(echo {W} | tee /dev/null)\n{K}", out: dollar, outside: comesBack},
	{name: "$(echo | sed)", text: "{x}=$(echo {W} | sed s/X/Y/)\n{K}", out: dollar, outside: comesBack},
	{name: "$(echo | head)", text: "{x}=$(echo {W} | head -n 1)\n{K}", out: dollar, outside: comesBack},
	{name: "$(echo | read; echo)", text: "{x}=$(echo {W} | { read -r y; echo \"$y\"; })\n{K}", out: dollar, outside: comesBack},
	{name: "$(awk)", text: "{x}=$(awk -v v={W} 'BEGIN { print v }')\n{K}", out: dollar, outside: comesBack},
	{name: "$(xargs)", text: "{x}=$(echo {W} | xargs)\n{K}", out: dollar, outside: comesBack},
	{name: "$(true; echo)", text: "{x}=$(true; echo {W})\n{K}", out: dollar},
	{name: "$(function)", text: "{f}() {\necho \"$1\"\n}\n{x}=$({f} {W})\n{K}", out: dollar},
	{name: "$(sh -c echo)", text: "{x}=$(sh -c 'echo \"$1\"' _ {W})\n{K}", out: dollar, outside: comesBack},
	{name: "$(if echo)", text: "{x}=$(if true; then echo {W}; fi)\n{K}", out: dollar},
	{name: "$(y=; echo $y)", text: "{x}=$(y={W}; echo \"$y\")\n{K}", out: dollar},
	{name: "$(command echo)", text: "{x}=$(command echo {W})\n{K}", out: dollar},
	{name: "$(echo) in $(echo)", text: "{x}=$(echo \"$(echo {W})\")\n{K}", out: dollar},
	{name: "$(/bin/echo)", text: "{x}=$(/bin/echo {W})\n{K}", out: dollar},
	{name: "$(echo >&1)", text: "{x}=$(echo {W} 2>/dev/null)\n{K}", out: dollar},
	{name: "$(env printf)", text: "{x}=$(env printf %s {W})\n{K}", out: dollar, outside: comesBack},
}

var files = []*production{
	{name: "file, cat", text: "echo {W} > {f}\n{x}=$(cat {f})\n{K}", out: dollar, outside: comesBack},
	{name: "file, $(<)", text: "printf '%s\\n' {W} > {f}\n{x}=$(< {f})\n{K}", out: dollar, outside: comesBack},
	{name: "file, read", text: "echo {W} > {f}\nread -r {x} < {f}\n{K}", out: dollar, outside: comesBack},
	{name: "file by tee", text: "echo {W} | tee {f} > /dev/null\n{x}=$(cat {f})\n{K}", out: dollar, outside: comesBack},
	{name: "file by heredoc", text: "cat > {f} <<E{x}\n{T}\nE{x}\nread -r {x} < {f}\n{K}", out: dollar, outside: comesBack},
	{name: "sourced assignment", text: "y={W}\necho '{x}=$y' > {f}\n. ./{f}\n{K}", out: dollar, outside: shifted},
}

var arrays = []*production{
	{name: "array", text: "{x}=({W})\n{K}", out: "${{x}[0]}"},
	{name: "array whole", text: "{x}=(echo {W})\n{K}", out: "${{x}[*]}"},
	{name: "array all", text: "{x}=({W})\n{K}", out: "${{x}[@]}"},
	{name: "array +=", text: "{x}=()\n{x}+=({W})\n{K}", out: "${{x}[0]}"},
	{name: "array without index", text: "{x}=({W})\n{K}", out: dollar},
	{name: "array element", text: "{x}[1]={W}\n{K}", out: "${{x}[1]}"},
	{name: "array last", text: "{x}=(y {W})\n{K}", out: "${{x}[-1]}"},
	{name: "declare -a", text: "declare -a {x}=({W})\n{K}", out: "${{x}[0]}"},
	{name: "associative", text: "declare -A {x}\n{x}[k]={W}\n{K}", out: "${{x}[k]}"},
	{name: "associative list", text: "declare -A {x}=([k]={W})\n{K}", out: "${{x}[k]}"},
	{name: "for in array", text: "y=({W})\nfor {x} in \"${y[@]}\"; do\n{K}\ndone", out: dollar},
	{name: "array of set --", text: "{x}=({W})\nset -- \"${{x}[@]}\"\n{K}", out: "$1"},
	{name: "mapfile of array", text: "y=({W})\nmapfile -t {x} < <(printf '%s\\n' \"${y[@]}\")\n{K}", out: "${{x}[0]}", outside: comesBack},
}

var expansions = []*production{
	{name: "%", text: "{x}=${{N}%.txt}\n{K}", out: dollar},
	{name: "##", text: "{x}=${{N}##*/}\n{K}", out: dollar},
	{name: "% in place", text: ": {N}\n{K}", out: "${{N}%.txt}"},
	{name: ":-", text: "{x}=${{N}:-none}\n{K}", out: dollar},
	{name: ":- of unset", text: "{x}=${unset:-{W}}\n{K}", out: dollar},
	{name: ":- in place", text: "{K}", out: "${unset:-{T}}"},
	{name: ":+", text: "{x}=${{N}:+${N}}\n{K}", out: dollar},
	{name: ":?", text: "{x}=${{N}:?}\n{K}", out: dollar},
	{name: "substring", text: "{x}=${{N}:0:99}\n{K}", out: dollar},
	{name: "replace", text: "{x}=${{N}/X/Y}\n{K}", out: dollar},
	{name: "replaced by", text: "y=X\n{x}=${y/X/{W}}\n{K}", out: dollar},
	{name: "case", text: "{x}=${{N},}\n{K}", out: dollar},
	{name: "indirect", text: "y={N}\n{x}=${!y}\n{K}", out: dollar},
	{name: "indirect in place", text: "{x}={N}\n{K}", out: "${!{x}}"},
	{name: "nameref", text: "declare -n {x}={N}\n{K}", out: dollar},
	{name: "nameref set", text: "declare -n y={x}\ny={W}\n{K}", out: dollar},
	{name: "local nameref", text: "{f}() {\nlocal -n r{x}=$1\nr{x}={W}\n}\n{f} {x}\n{K}", out: dollar},
	{name: "@E", text: "{x}=${{N}@E}\n{K}", out: dollar},
	{name: "IFS split", text: "IFS=:\nset -- {T}\n{K}", out: "$1"},
	{name: "by read of its name", text: "y={x}\nread -r \"$y\" <<< {W}\n{K}", out: dollar},
	{name: "by printf -v of its name", text: "y={x}\nprintf -v \"$y\" %s {W}\n{K}", out: dollar},
	{name: "by declare of its name", text: "y={x}\ndeclare \"$y={T}\"\n{K}", out: dollar},
	{name: "by export of its name", text: "y={x}\nexport \"$y={T}\"\n{K}", out: dollar},
}

// wrappers leave the data where it is.
var wrappers = []*production{
	{name: "if", text: "if true; then\n{K}\nfi"},
	{name: "else", text: "if false; then :; else\n{K}\nfi"},
	{name: "condition", text: "if\n{K}\nthen :; fi"},
	{name: "case", text: "case {W} in\n*)\n{K}\n;;\nesac"},
	{name: "while", text: "while true; do\n{K}\nbreak\ndone"},
	{name: "until", text: "until false; do\n{K}\nbreak\ndone"},
	{name: "for loop", text: "for i in 1 2; do\n{K}\ndone"},
	{name: "for ((", text: "for ((i = 0; i < 1; i++)); do\n{K}\ndone"},
	{name: "group", text: "{\n{K}\n}"},
	{name: "subshell", text: "(\n{K}\n)"},
	{name: "background", text: "{\n{K}\n} &\nwait"},
	{name: "substitution", text: "y=$(\n{K}\n)"},
	{name: "pipe into", text: "{\n{K}\n} | cat"},
	{name: "pipe from", text: "echo y | {\n{K}\n}"},
	{name: "redirected", text: "{\n{K}\n} > /dev/null 2>&1"},
	{name: "body of a function", text: "{f}() {\n{K}\n}\n{f}"},
	{name: "and", text: "true && {\n{K}\n}"},
	{name: "or", text: "false || {\n{K}\n}"},
	{name: "not", text: "! {\n{K}\n}"},
	{name: "eval", text: "eval {S}"},
	{name: "trap", text: "trap {S} EXIT"},
	{name: "sh -c", text: "sh -c {S}"},
	{name: "bash -c", text: "bash -c {S}"},
	{name: "sh -c of the exported", text: "export {N}\nsh -c {S}"},
	{name: "sh heredoc of the exported", text: "export {N}\nsh <<'E{f}'\n{K}\nE{f}"},
	{name: "process substitution", text: "cat <(\n{K}\n)"},
	{name: "coproc", text: "coproc {\n{K}\n}\nwait"},
	{name: "set -eu", text: "set -eu\n{K}"},
	{name: "exec", text: "exec sh -c {S}"},
	{name: "timeout", text: "timeout 5 sh -c {S}"},
}

// cleaners make the data harmless: some of it is left, or nothing.
var cleaners = []*production{
	{name: "clean: numbers only", text: "case {W} in *[!0-9]*) exit 1 ;; esac\n{K}"},
	{name: "clean: length", text: "{x}=${#{N}}\n{K}", out: dollar},
	{name: "clean: overwritten", text: "{x}={W}\n{x}=fixed\n{K}", out: dollar},
	{name: "clean: constant", text: "{x}={W}\ny=fixed\n{K}", out: "$y"},
	{name: "clean: %q", text: "{x}=$(printf '%q' {W})\n{K}", out: dollar},
	{name: "clean: printf -v %q", text: "printf -v {x} %q {W}\n{K}", out: dollar},
	{name: "clean: @Q", text: "{x}=${{N}@Q}\n{K}", out: dollar},
	{name: "clean: digits by tr", text: "{x}=$(printf '%s' {W} | tr -dc 0-9)\n{K}", out: dollar},
	{name: "clean: wc", text: "{x}=$(printf '%s' {W} | wc -c)\n{K}", out: dollar},
	{name: "clean: choice", text: "case {W} in a) {x}=1 ;; *) {x}=2 ;; esac\n{K}", out: dollar},
	{name: "clean: status", text: "test {W} = y\n{x}=$?\n{K}", out: dollar},
	{name: "clean: test and text", text: "{x}=n\n[ -n {W} ] && {x}=ok\n{K}", out: dollar},
	{name: "clean: checksum", text: "{x}=$(printf '%s' {W} | cksum)\n{K}", out: dollar},
	{name: "clean: equals", text: "[ {W} = fixed ] || exit 0\n{K}"},
	{name: "clean: %d", text: "printf -v {x} %d {W} 2> /dev/null\n{K}", out: dollar},
	{name: "clean: //", text: "{x}=${{N}//[!0-9]/}\n{K}", out: dollar},
	{name: "clean: regexp", text: "[[ {W} =~ ^[0-9]+$ ]] || exit 0\n{K}"},
	{name: "clean: unset", text: "{x}={W}\nunset {x}\n{K}", out: dollar},
	{name: "clean: subshell", text: "{x}=fixed\n( {x}={W} )\n{K}", out: dollar},
}

// flows are all of them.
func flows() []*production {
	var all []*production
	for _, family := range flowFamilies {
		for _, p := range family {
			if !slices.Contains(all, p) {
				all = append(all, p)
			}
		}
	}
	return all
}
