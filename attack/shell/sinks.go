//go:build unix

package main

import "slices"

// sinkFamilies are the places where data is run, by kind. Not every one of them runs it in both shells.
var sinkFamilies = [][]*production{
	evals, nestedShells(), nestedShells(), fedShells, fedShells, traps, commands, sourced, behindPrograms, languages, arithmetic, arithmetic, subscripts, names, settings, stepEnv,
}

var evals = []*production{
	{name: "eval", text: "eval {W}"},
	{name: "eval in text", text: `eval "echo {D}"`},
	{name: "eval in quotes", text: `eval "echo '{J}'"`, payloads: []string{endsQuote}},
	{name: "eval echo", text: `eval echo '"'{W}'"'`},
	{name: "command eval", text: "command eval {W}"},
	{name: "builtin eval", text: "builtin eval {W}"},
	{name: "\\eval", text: "\\eval {W}"},
	{name: "eval by variable", text: "e=eval\n$e {W}"},
	{name: "eval of eval", text: "eval eval {W}"},
	{name: "eval assignment", text: `eval "y={D}"`},
	{name: "eval test", text: `eval "[ {D} = y ]"`},
	{name: "eval $(echo)", text: `eval "$(echo {W})"`},
	{name: "eval in substitution", text: `y=$(eval {W})`},
	{name: "eval cat", text: `eval "$(cat <<E` + "\n{T}\nE\n" + `)"`, outside: comesBack},
}

// nestedShells are shells that are given code as an argument: every spelling of the shell with some forms of the code.
func nestedShells() []*production {
	spellings := []string{
		"sh -c", "bash -c", "dash -c", "/bin/sh -c", `"sh" -c`, "s'h' -c", `\sh -c`, "sh -ec", "sh -e -c", "sh -x -c", "bash --norc -c", "bash -o errexit -c", "bash -O extglob -c", "sh -c --",
		"command sh -c", "exec sh -c", "env sh -c", "env y=1 sh -c", "env -u y bash -c", "nohup sh -c", "nice -n 1 sh -c", "timeout 5 bash -c", "setsid -w sh -c", "stdbuf -o0 sh -c", "/usr/bin/env bash -c",
		"y=1 sh -c", "time sh -c", "! sh -c", "S=sh\n$S -c", "S=bash\n\"$S\" -c", "S='sh -c'\n$S", "${S:-sh} -c", "flock . sh -c", "o=-c\nsh $o", "S=sh\nenv $S -c", "xargs -n 1 sh -c < /dev/null; sh -c",
	}
	forms := []struct{ name, text string }{{"whole", "{W}"}, {"in text", `"echo {D}"`}, {"behind set -e", `"set -e; echo {D}"`}, {"in quotes", `"echo '{J}'"`}}
	var all []*production
	for i, spelling := range spellings {
		for _, form := range []int{0, 1 + i%3} {
			p := &production{name: spelling + " " + forms[form].name, text: spelling + " " + forms[form].text}
			if forms[form].name == "in quotes" {
				p.payloads = []string{endsQuote}
			}
			all = append(all, p)
		}
	}
	return all
}

// fedShells read code from their input or a file.
var fedShells = []*production{
	{name: "echo | sh", text: "echo {W} | sh"},
	{name: "printf | bash", text: "printf '%s\\n' {W} | bash"},
	{name: "echo | sh -", text: "echo {W} | sh -"},
	{name: "echo | sh -s", text: "echo {W} | sh -s"},
	{name: "echo | sh -s argument", text: "echo {W} | sh -s -- y"},
	{name: "echo | bash -e", text: "echo {W} | bash -e"},
	{name: "echo | sh /dev/stdin", text: "echo {W} | sh /dev/stdin"},
	{name: "echo | env sh", text: "echo {W} | env sh"},
	{name: "echo | exec sh", text: "echo {W} | exec sh"},
	{name: "echo | $S", text: "S=sh\necho {W} | $S"},
	{name: "echo | /bin/sh", text: "echo {W} | /bin/sh"},
	{name: "echo | cat | sh", text: "echo {W} | cat | sh", outside: comesBack},
	{name: "echo | tee | sh", text: "echo {W} | tee /dev/null | sh", outside: comesBack},
	{name: "echo | { sh; }", text: "echo {W} | { sh; }"},
	{name: "echo | ( sh )", text: "echo {W} | ( sh )"},
	{name: "echo | if sh", text: "echo {W} | if sh; then :; fi"},
	{name: "{ echo; } | sh", text: "{ echo {W}; } | sh"},
	{name: "( echo ) | sh", text: "( echo {W} ) | sh"},
	{name: "{ echo; echo; } | sh", text: "{ echo :; echo {W}; } | sh"},
	{name: "if echo | sh", text: "if true; then echo {W}; fi | sh"},
	{name: "function | sh", text: "{f}() {\necho \"$1\"\n}\n{f} {W} | sh"},
	{name: "echo in text | sh", text: `echo "echo {D}" | sh`},
	{name: "tee >(sh)", text: "echo {W} | tee >(sh) > /dev/null\nsleep 0.1"},
	{name: "echo > >(sh)", text: "echo {W} > >(sh)\nwait $!"},
	{name: "exec > >(sh)", text: "exec > >(bash)\necho {W}\nexec >&-\nwait $!"},
	{name: "sh <<<", text: "sh <<< {W}"},
	{name: "bash -s <<<", text: "bash -s <<< {W}"},
	{name: "sh heredoc", text: "sh <<E\n{T}\nE"},
	{name: "sh heredoc in text", text: "sh <<E\necho {H}\nE"},
	{name: "bash heredoc -", text: "bash - <<E\necho {H}\nE"},
	{name: "cat heredoc | sh", text: "cat <<E | sh\necho {H}\nE"},
	{name: "sh < <(echo)", text: "sh < <(echo {W})"},
	{name: "sh <(echo)", text: "sh <(echo {W})"},
	{name: "bash <(echo) argument", text: "bash <(echo {W}) y"},
	{name: "exec 3<<< sh <&3", text: "exec 3<<< {W}\nsh <&3"},
	{name: "sh /dev/fd/3", text: "sh /dev/fd/3 3<<E\n{T}\nE"},
	{name: "while read eval", text: "echo {W} | while read -r y; do eval \"$y\"; done", outside: comesBack},
	{name: "while read sh -c <<<", text: "while read -r y; do sh -c \"$y\"; done <<< {W}"},
	{name: "echo > file; sh file", text: "echo {W} > {f}\nsh {f}", outside: comesBack},
	{name: "echo > file; sh < file", text: "echo {W} > {f}\nsh < {f}", outside: comesBack},
	{name: "heredoc > file; sh file", text: "cat > {f} <<E\necho {H}\nE\nsh {f}", outside: comesBack},
	{name: "echo > file; chmod; run", text: "{ echo '#!/bin/sh'; echo {W}; } > {f}\nchmod +x {f}\n./{f}", outside: comesBack},
	{name: "echo | xargs sh -c", text: "echo {W} | xargs -0 sh -c", outside: comesBack},
	{name: "echo | xargs -I sh -c", text: "echo {W} | xargs -I{} sh -c 'echo {}'", outside: comesBack},
	{name: "coproc sh", text: "coproc sh\necho {W} >&\"${COPROC[1]}\"\nexec {COPROC[1]}>&-\nwait"},
}

var traps = []*production{
	{name: "trap EXIT", text: "trap {W} EXIT"},
	{name: "trap EXIT in text", text: `trap "echo {D}" EXIT`},
	{name: "trap 0", text: "trap {W} 0"},
	{name: "trap --", text: `trap -- "echo {D}" EXIT`},
	{name: "trap EXIT INT", text: `trap "rm -f {D}" EXIT INT TERM`},
	{name: "trap ERR", text: "trap {W} ERR\nfalse"},
	{name: "trap DEBUG", text: "trap {W} DEBUG\n:"},
	{name: "trap RETURN", text: "{f}() {\n:\n}\ntrap {W} RETURN\n. /dev/null"},
	{name: "trap signal", text: "trap {W} USR1\nkill -USR1 $$"},
	{name: "trap in subshell", text: "( trap {W} EXIT )"},
	{name: "trap in function", text: "{f}() {\ntrap \"echo {D}\" EXIT\n}\n{f}"},
	{name: "alias", text: "alias e{x}={W}\ne{x}"},
	{name: "mapfile -C", text: "mapfile -C {W} -c 1 y <<< z"},
	{name: "compgen -W", text: "compgen -W {W}"},
	{name: "compgen -C", text: "compgen -C {W}"},
}

// commands are run by name: the data is the program.
var commands = []*production{
	{name: "command word", text: "{T}"},
	{name: "quoted command word", text: "\"{T}\""},
	{name: "command word with arguments", text: "{T} y"},
	{name: "behind an assignment", text: "y=1 {W}"},
	{name: "in if", text: "if {W}; then :; fi"},
	{name: "behind !", text: "! {W}"},
	{name: "behind &&", text: "true && {W}"},
	{name: "in the background", text: "{W} & wait"},
	{name: "behind a pipe", text: "echo y | {W}"},
	{name: "in $( )", text: "y=$({W})"},
	{name: "command", text: "command {W}"},
	{name: "exec", text: "exec {W}"},
	{name: "env", text: "env {W}"},
	{name: "env name", text: "env y=1 {W}"},
	{name: "nohup", text: "nohup {W}"},
	{name: "timeout", text: "timeout 5 {W}"},
	{name: "nice", text: "nice {W}"},
	{name: "setsid", text: "setsid -w {W}"},
	{name: "time", text: "time {W}"},
	{name: "xargs", text: "xargs {W} < /dev/null"},
	{name: "find -exec", text: "find . -maxdepth 0 -exec {W} \\;"},
	{name: "in a redirected group", text: "{ {W}; } > /dev/null"},
	{name: "array as command", text: "y=({W})\n\"${y[@]}\""},
	{name: "$@ as command", text: "set -- {W}\n\"$@\""},
	{name: "coproc", text: "coproc {W}\nwait"},
}

var sourced = []*production{
	{name: ". <(echo)", text: ". <(echo {W})"},
	{name: "source <(printf)", text: "source <(printf '%s\\n' {W})"},
	{name: ". /dev/stdin <<<", text: ". /dev/stdin <<< {W}"},
	{name: ". /dev/stdin heredoc", text: ". /dev/stdin <<E\n{T}\nE"},
	{name: "source /dev/stdin heredoc in text", text: "source /dev/stdin <<E\necho {H}\nE"},
	{name: "echo | . /dev/stdin", text: "echo {W} | . /dev/stdin"},
	{name: "command . <(echo)", text: "command . <(echo {W})"},
	{name: "builtin source <(echo)", text: "builtin source <(echo {W})"},
	{name: "echo > file; . file", text: "echo {W} > {f}\n. ./{f}", outside: comesBack},
	{name: "tee file; source file", text: "echo {W} | tee {f} > /dev/null\nsource ./{f}", outside: comesBack},
	{name: "echo name=value > file; . file", text: "echo \"y={D}\" > {f}\n. ./{f}", outside: comesBack},
	{name: ". name", text: ". {W}", outside: ofProgram},
}

// behindPrograms is code for a shell behind another program.
var behindPrograms = []*production{
	{name: "find -exec sh -c", text: "find . -maxdepth 0 -exec sh -c {W} \\;"},
	{name: "find -exec sh -c in text", text: `find . -maxdepth 0 -exec sh -c "echo {D}" \;`},
	{name: "find -exec bash -c +", text: `find . -maxdepth 0 -exec bash -c "echo {D}" _ {} +`},
	{name: "find -execdir sh -c", text: `find . -maxdepth 0 -execdir sh -c {W} \;`},
	{name: "find -ok", text: `echo y | find . -maxdepth 0 -ok sh -c {W} \;`},
	{name: "xargs sh -c", text: `echo y | xargs sh -c {W}`},
	{name: "xargs sh -c in text", text: `echo y | xargs -n 1 sh -c "echo {D}" _`},
	{name: "xargs -I sh -c", text: `echo y | xargs -I{} sh -c "echo {D} {}"`},
	{name: "env -S", text: `env -S "sh -c {W}"`, outside: ofProgram},
	{name: "flock -c", text: `flock . -c {W}`},
	{name: "flock -c in text", text: `flock . -c "echo {D}"`},
	{name: "script -c", text: `script -qc {W} /dev/null`},
	{name: "timeout sh -c in text", text: `timeout 5 sh -c "echo {D}"`},
	{name: "sh -c sh -c", text: `sh -c 'sh -c "$1"' _ {W}`},
	{name: "sh -c eval", text: `sh -c 'eval "$1"' _ {W}`},
	{name: "sh -c eval all", text: `bash -c 'eval "$@"' _ {W}`},
	{name: "sh -c command word", text: `sh -c '$1' _ {W}`},
	{name: "sh -c all", text: `sh -c '"$@"' _ {W}`},
	{name: "sh -c eval of the exported", text: "export {N}\nsh -c 'eval \"${N}\"'"},
	{name: "sh -c eval of a prefix", text: "y={W} sh -c 'eval \"$y\"'"},
	{name: "sh -c trap", text: "y={W} sh -c 'trap \"$y\" EXIT'"},
	{name: "sh -c | sh", text: "y={W} sh -c 'echo \"$y\" | sh'"},
	{name: "sh -c arithmetic", text: `bash -c 'echo $(($1))' _ {W}`},
	{name: "sh -c arithmetic of the exported", text: "export y={W}\nbash -c 'echo $((y))'"},
	{name: "sh heredoc eval", text: "export y={W}\nsh <<'E'\neval \"$y\"\nE"},
}

// languages is code of other languages, with payloads that are code there.
var languages = []*production{
	{name: "awk text", text: `awk "BEGIN { print \"{T}\" }"`, payloads: []string{`"; system("mark"); "`}},
	{name: "awk program", text: "awk {W} < /dev/null", payloads: []string{`BEGIN { system("mark") }`}},
	{name: "awk behind a quote", text: `awk 'BEGIN { print "'{W}'" }'`, payloads: []string{`"; system("mark"); "`}},
	{name: "awk -v system", text: `awk -v v={W} 'BEGIN { system(v) }'`, outside: ofProgram},
	{name: "awk ENVIRON system", text: `y={W} awk 'BEGIN { system(ENVIRON["y"]) }'`, outside: ofProgram},
	{name: "perl -e text", text: `perl -e "print '{T}'"`, payloads: []string{`'; system('mark'); '`}},
	{name: "perl -e", text: `perl -e {W}`, payloads: []string{`system("mark")`}},
	{name: "perl argument", text: `perl -e 'system($ARGV[0])' {W}`, outside: ofProgram},
	{name: "python3 -c text", text: `python3 -c "print('{T}')"`, payloads: []string{`'); __import__('os').system('mark'); ('`}},
	{name: "sed program", text: `echo y | sed {W}`, payloads: []string{"1e mark"}},
	{name: "sed replacement", text: `echo y | sed "s/y/{T}/"`, payloads: []string{"/;e mark\n#"}},
	{name: "sed flag e", text: `echo y | sed "s/y/{T}/e"`},
	{name: "sed -e", text: `echo y | sed -n -e "1 p; s/y/{T}/p"`, payloads: []string{"/;e mark\n#"}},
}

// arithmetic evaluates data as an expression. dash does so without running it.
var arithmetic = []*production{
	{name: "$(( ))", text: "echo $(({T}))"},
	{name: "$((name))", text: "echo $(({N}))"},
	{name: "$((name + 1))", text: "y=$(({N} + 1))"},
	{name: "$(( + 1))", text: `y="$(( 1 + {T} ))"`},
	{name: "(( ))", text: "(( {T} ))"},
	{name: "((name))", text: "(( {N} > 1 ))"},
	{name: "((name++))", text: "(( {N}++ ))"},
	{name: "((m = name))", text: "(( y = {N} ))"},
	{name: "((m += name))", text: "y=1\n(( y += {N} ))"},
	{name: "if ((", text: "if (( {N} )); then :; fi"},
	{name: "while ((", text: "while (( {N} > 3 )); do break; done"},
	{name: "for ((", text: "for (( i = {N}; i < 1; i++ )); do break; done"},
	{name: "$[ ]", text: "echo $[ {N} ]"},
	{name: "let", text: "let y={W}"},
	{name: "let in quotes", text: `let "y = {T}"`},
	{name: "let of a name", text: `let "y={N}+1"`},
	{name: "let name", text: `let {N}++`},
	{name: "[[ -eq ]]", text: "[[ {W} -eq 1 ]]"},
	{name: "[[ -gt ]] of a name", text: "[[ {N} -gt 1 ]]"},
	{name: "[[ right ]]", text: "[[ 1 -lt {W} ]]"},
	{name: "declare -i", text: "declare -i y={W}"},
	{name: "declare -i, assign", text: "declare -i y\ny={W}"},
	{name: "declare -i, +=", text: "declare -i y=1\ny+={W}"},
	{name: "declare -i, read", text: "declare -i y\nread -r y <<< {W}"},
	{name: "declare -i, for", text: "declare -i y\nfor y in {W}; do :; done"},
	{name: "declare -i, printf -v", text: "declare -i y\nprintf -v y %s {W}"},
	{name: "declare -i, mapfile", text: "declare -ia y\nmapfile -t y <<< {W}"},
	{name: "declare -i, default", text: "declare -i y\n: \"${y:={T}}\""},
	{name: "declare -i, export", text: "declare -i y\nexport y={W}"},
	{name: "declare -i of array", text: "declare -ia y=({W})"},
	{name: "declare -i of data", text: "declare -i {N}\n{N}={W}"},
	{name: "local -i", text: "{f}() {\nlocal -i y=$1\n}\n{f} {W}"},
	{name: "typeset -i", text: "typeset -i y={W}"},
	{name: "substring", text: "y=abc\necho \"${y:{T}}\""},
	{name: "substring of a name", text: "y=abc\necho \"${y:{N}}\""},
	{name: "length", text: "y=abc\necho \"${y:0:{N}}\""},
	{name: "slice of $@", text: "set -- y z\necho \"${@:{N}}\""},
	{name: "slice of an array", text: "y=(1 2)\necho \"${y[@]:{N}:1}\""},
	{name: "name of a name", text: "y={N}\necho $((y))"},
	{name: "twice", text: "y={W}\nz=$y\necho $((z))"},
	{name: "10#", text: "echo $((10#{T}))", payloads: []string{"1+a[$(mark)]"}},
	{name: "?:", text: "echo $(( 1 ? {N} : 0 ))"},
	{name: "&&", text: "(( 1 && {N} ))"},
	{name: "in a heredoc", text: "cat <<E\n$(({N}))\nE"},
	{name: "in a case", text: "case $(({N})) in 1) ;; esac"},
	{name: "in a function", text: "{f}() {\necho $(($1 + 1))\n}\n{f} {W}"},
	{name: "RANDOM", text: "RANDOM={W}"},
	{name: "OPTIND", text: "OPTIND={W}"},
	{name: "exit", text: "exit $(({N}))"},
}

var subscripts = []*production{
	{name: "array[ ]", text: "y=(1 2)\necho \"${y[{T}]}\""},
	{name: "array[name]", text: "y=(1 2)\necho \"${y[{N}]}\""},
	{name: "array[name + 1]", text: "y=(1 2)\necho \"${y[{N} + 1]}\""},
	{name: "length of array[ ]", text: "y=(1 2)\necho \"${#y[{N}]}\""},
	{name: "array[ ]=", text: "y[{T}]=1"},
	{name: "array[name]=", text: "y[{N}]=1"},
	{name: "array[name]+=", text: "y=(1)\ny[{N}]+=1"},
	{name: "array=([ ]=)", text: "y=([{T}]=1)"},
	{name: "declare -a [name]", text: "declare -a y=([{N}]=1)"},
	{name: "declare [ ]", text: "y=(1)\ndeclare \"y[{T}]=1\""},
	{name: "unset [ ]", text: "y=(1 2)\nunset \"y[{T}]\""},
	{name: "unset [name]", text: "y=(1 2)\nunset 'y[{N}]'"},
	{name: "unset bare [name]", text: "y=(1 2)\nunset y[{N}]"},
	{name: "[[ -v [name] ]]", text: "y=(1 2)\n[[ -v y[{N}] ]]"},
	{name: "test -v [ ]", text: "y=(1 2)\ntest -v \"y[{T}]\""},
	{name: "[ -v [name] ]", text: "y=(1 2)\n[ -v 'y[{N}]' ]"},
	{name: "read [ ]", text: "read -r \"y[{T}]\" <<< z"},
	{name: "read [name]", text: "read -r 'y[{N}]' <<< z"},
	{name: "printf -v [ ]", text: "printf -v \"y[{T}]\" z"},
	{name: "printf -v [name]", text: "printf -v 'y[{N}]' z"},
	{name: "associative[ ] unset", text: "declare -A y\ny[z]=1\nunset \"y[{T}]\""},
	{name: "indirect [name]", text: "y=(1 2)\nz='y[{N}]'\necho \"${!z}\""},
	{name: "nameref [name]", text: "y=(1 2)\ndeclare -n z='y[{N}]'\necho \"$z\""},
	{name: "wait -p", text: ": &\nwait -n -p {W}"},
}

// names are places where data names a variable, of which a shell takes the subscript for an expression.
var names = []*production{
	{name: "${! }", text: "echo \"${!{N}}\""},
	{name: "${@P}", text: "echo \"${{N}@P}\""},
	{name: "declare -n", text: "declare -n y={W}\necho \"$y\""},
	{name: "local -n", text: "{f}() {\nlocal -n r=$1\necho \"$r\"\n}\n{f} {W}"},
	{name: "nameref later", text: "declare -n y\ny={W}\necho \"$y\""},
	{name: "read name", text: "read -r {W} <<< y"},
	{name: "printf -v name", text: "printf -v {W} y"},
	{name: "declare name", text: "declare {W}=1"},
	{name: "declare assignment", text: "declare {W}", payloads: []string{"a[$(mark)]=1"}},
	{name: "local assignment", text: "{f}() {\nlocal {W}\n}\n{f}", payloads: []string{"a[$(mark)]=1"}},
	{name: "unset name", text: "unset {W}"},
	{name: "[[ -v ]]", text: "[[ -v {W} ]]"},
	{name: "test -v", text: "test -v {W}"},
	{name: "[ -v ]", text: "[ -v {W} ]"},
	{name: "eval name=", text: "eval \"{D}=1\""},
	{name: "eval $name", text: "eval \"echo \\$x{D}\""},
	{name: "eval for", text: "eval \"for y in {D}; do :; done\""},
	{name: "[[ -v \"$x\" ]] by a loop", text: "for y in {W}; do [[ -v $y ]]; done"},
	{name: "${ } in a prompt", text: "y={W}\necho \"${y@P}\""},
}

// settings are variables that steer a shell.
var settings = []*production{
	{name: "PS4", text: "PS4={W}\nset -x\n:"},
	{name: "PS4 in text", text: "PS4=\"+ {T} \"\nset -x\n:"},
	{name: "PS4 of bash -x", text: "PS4={W} bash -xc :", notAsRoot: true},
	{name: "env PS4", text: "env \"PS4={T}\" bash -xc :", notAsRoot: true},
	{name: "env PS4 -x -c", text: "env PS4={W} bash -x -c :", notAsRoot: true},
	{name: "export PS4", text: "export PS4={W}\nbash -xc :", notAsRoot: true},
	{name: "declare PS4", text: "declare PS4={W}\nset -x\n:"},
	{name: "read PS4", text: "read -r PS4 <<< {W}\nset -x\n:"},
	{name: "for PS4", text: "for PS4 in {W}; do\nset -x\n:\ndone"},
	{name: "printf -v PS4", text: "printf -v PS4 %s {W}\nset -x\n:"},
	{name: "BASH_ENV", text: "BASH_ENV={W} bash -c :"},
	{name: "env BASH_ENV", text: "env BASH_ENV={W} bash -c :"},
	{name: "export BASH_ENV", text: "export BASH_ENV={W}\nbash -c :"},
	{name: "export BASH_ENV later", text: "BASH_ENV={W}\nexport BASH_ENV\nbash -c :"},
	{name: "declare -x BASH_ENV", text: "declare -x BASH_ENV={W}\nbash -c :"},
	{name: "env BASH_FUNC", text: "env \"BASH_FUNC_y%%=() { {T}; }\" bash -c y"},
	{name: "ENV", text: "ENV={W} sh -ic : "},
	{name: "env -i BASH_ENV", text: "env -i PATH=\"$PATH\" BASH_ENV={W} bash -c :"},
	{name: "PERL5OPT", text: "PERL5OPT=\"-Mvars;{T}\" perl -e 1", payloads: []string{"system(mark)"}},
}

// stepEnv are variables that the step itself sets from data. They have a source of their own, so that what flows to them is not used.
var stepEnv = []*production{
	{name: "env: PS4", text: "set -x\n:", env: variable{"PS4", "${item.v}"}},
	{name: "env: PS4 of a child", text: "bash -xc :", env: variable{"PS4", "+${item.v}"}, notAsRoot: true},
	{name: "env: BASH_ENV", text: "bash -c :", env: variable{"BASH_ENV", "${item.v}"}},
	{name: "env: BASH_ENV by capture", text: "bash -c :", env: variable{"BASH_ENV", "${cap}"}},
	{name: "env: BASH_ENV by parameter", text: "bash -c :", env: variable{"BASH_ENV", "${par}"}},
	{name: "env: BASH_FUNC", text: "bash -c y", env: variable{"BASH_FUNC_y%%", "() { ${item.v}; }"}},
}

// harmlessFamilies are uses of data that run nothing, whatever it is.
var harmlessFamilies = [][]*production{plainUses, plainUses, guardedUses, constantCode}

var plainUses = []*production{
	{name: "echo", text: "echo {W}"},
	{name: "printf", text: "printf '%s\\n' {W}"},
	{name: "cat <<<", text: "cat <<< {W}"},
	{name: "cat heredoc", text: "cat <<E\n{T}\nE"},
	{name: "grep -F", text: "grep -F -e {W} /dev/null"},
	{name: "test =", text: "test {W} = y"},
	{name: "[ -n ]", text: "[ -n {W} ] && echo y"},
	{name: "[[ == ]]", text: "[[ {W} == y ]]"},
	{name: "[[ =~ ]]", text: "[[ y =~ {W} ]]"},
	{name: "[ -eq ]", text: "[ {W} -eq 1 ]"},
	{name: "case of", text: "case {W} in y) echo y ;; esac"},
	{name: "pattern of case", text: "case y in \"{T}\") echo y ;; esac"},
	{name: "assigned only", text: "y={W}"},
	{name: "assigned, echo", text: "y={W}\necho \"$y\""},
	{name: "exported only", text: "export y={W}\nprintenv y"},
	{name: "ls", text: "ls -d -- {W}"},
	{name: "redirected to", text: "echo y > \"out-{T}\""},
	{name: "appended to", text: "echo {W} >> log"},
	{name: "tee", text: "echo {W} | tee log"},
	{name: "wc", text: "printf '%s' {W} | wc -c"},
	{name: "length of", text: "echo \"${#{N}}\""},
	{name: "mkdir", text: "mkdir -p -- \"d-{T}\""},
	{name: "find -name", text: "find . -name {W}"},
	{name: "xargs echo", text: "echo {W} | xargs -0 echo"},
	{name: "sort", text: "printf '%s\\n' {W} | sort -u"},
	{name: "env argument", text: "env y={W} printenv y"},
	{name: "loop", text: "for i in {W}; do echo \"$i\"; done"},
	{name: "function argument", text: "{f}() {\necho \"$1\"\n}\n{f} {W}"},
	{name: "read and echo", text: "printf '%s\\n' {W} | while read -r y; do echo \"$y\"; done"},
	{name: "basename", text: "basename -- {W}"},
	{name: "written to a file", text: "printf '%s\\n' {W} > {f}\ncat {f}"},
	{name: "awk -v", text: "awk -v v={W} 'BEGIN { print v }'"},
	{name: "$? of test", text: "[ {W} = y ]\nexit $?"},
	{name: "array of", text: "y=({W})\necho \"${#y[@]}\""},
}

// guardedUses reach code only behind a guard, or as data that nested code reads itself.
var guardedUses = []*production{
	{name: "sh -c argument", text: "sh -c 'echo \"$1\"' _ {W}"},
	{name: "bash -c all arguments", text: "bash -c 'printf \"%s\\n\" \"$@\"' _ {W}"},
	{name: "sh -c reads variable", text: "y={W} sh -c 'echo \"$y\"'"},
	{name: "sh -c reads exported", text: "export y={W}\nsh -c 'printf %s \"$y\"'"},
	{name: "eval reads variable", text: "y={W}\neval 'echo \"$y\"'"},
	{name: "trap reads variable", text: "y={W}\ntrap 'echo \"$y\"' EXIT"},
	{name: "sh heredoc reads variable", text: "export y={W}\nsh <<'E'\necho \"$y\"\nE"},
	{name: "xargs sh -c argument", text: "printf '%s\\0' {W} | xargs -0 sh -c 'echo \"$1\"' _"},
	{name: "find -exec sh -c argument", text: "find . -maxdepth 0 -exec sh -c 'echo \"$1\"' _ {W} \\;"},
	{name: "count beside", text: "y=1\necho {W} $((y + 1))"},
	{name: "sh -c beside", text: "echo {W}\nsh -c 'echo y'"},
	{name: "eval beside", text: "y=z\neval \"echo $y\"\necho {W}"},
	{name: "number checked", text: "case {W} in '' | *[!0-9]*) exit 1 ;; esac\ny={W}\necho $((y + 1))"},
	{name: "choice evaluated", text: "case {W} in a) y='echo a' ;; *) y='echo b' ;; esac\neval \"$y\""},
	{name: "length counted", text: "y={W}\necho $((${#y} + 1))"},
	{name: "lines counted", text: "y=$(printf '%s\\n' {W} | wc -l)\necho $((y + 1))"},
	{name: "%q evaluated", text: "y=$(printf '%q' {W})\neval \"echo $y\""},
	{name: "cd", text: "cd . || exit 1\necho {W}"},
	{name: "overwritten and counted", text: "y={W}\ny=1\necho $((y))"},
}

// constantCode runs code that has nothing to do with the data.
var constantCode = []*production{
	{name: "loop counter", text: "i=0\nwhile [ $i -lt 2 ]; do\necho \"$i\" {W}\ni=$((i + 1))\ndone"},
	{name: "trap of a temporary file", text: "t=$(mktemp ./tmp.XXXX)\ntrap 'rm -f \"$t\"' EXIT\necho {W} > \"$t\""},
	{name: "sh -c constant in a pipe", text: "echo {W} | sh -c 'cat > /dev/null'"},
	{name: "eval constant", text: "eval 'y=1'\necho {W} \"$y\""},
	{name: "source constant", text: "echo 'y=1' > {f}\n. ./{f}\necho {W} \"$y\""},
	{name: "array of constants", text: "y=(1 2)\necho \"${y[1]}\" {W}"},
	{name: "bash reads its input", text: "echo {W} | bash -c 'read -r y; echo \"$y\"'"},
	{name: "command of a variable", text: "e=echo\n$e {W}"},
	{name: "getopts of constants", text: "set -- -v {W}\nwhile getopts v o; do :; done\nshift $((OPTIND - 1))\necho \"$@\""},
	{name: "exit status counted", text: "[ {W} = y ]\nn=$(( $? + 1 ))\necho $n"},
}

// sinks are all of them.
func sinks(families [][]*production) []*production {
	var all []*production
	for _, family := range families {
		for _, p := range family {
			if !slices.Contains(all, p) {
				all = append(all, p)
			}
		}
	}
	return all
}
