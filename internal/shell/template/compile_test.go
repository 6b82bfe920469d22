package template

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestScriptRefersToValuesInTheQuotingOfTheirPlace(t *testing.T) {
	for _, c := range []struct{ src, want string }{
		{`p ${item.v}`, `p "${PRODIGY_V0}"`},
		{`p "a ${item.v}"`, `p "a ${PRODIGY_V0}"`},
		{`p 'a ${item.v}'`, `p 'a '"${PRODIGY_V0}"''`},
		{`p $'a ${item.v}'`, `p $'a '"${PRODIGY_V0}"$''`},
		{`p ${item.v} ${item.v} ${item.w}`, `p "${PRODIGY_V0}" "${PRODIGY_V0}" "${PRODIGY_V1}"`},
		{`p "${x#${item.v}}"`, `p "${x#"${PRODIGY_V0}"}"`},
		{`p "${x:-${item.v}}"`, `p "${x:-${PRODIGY_V0}}"`},
		{`p $((${item.v}+1))`, `p $((${PRODIGY_V0}+1))`},
		{"# about ${item.v}\np ${item.v}", "# about item\np \"${PRODIGY_V0}\""},
		{"cat <<'E'\n$x ${item.v}\nE", "cat <<E\n\\$x ${PRODIGY_V0}\nE"},
		{"cat <<'E F'\n${item.v}\nE F", "cat <<PRODIGY_EOF\n${PRODIGY_V0}\nPRODIGY_EOF"},
		{"sh <<'E'\np ${item.v}\nE", "sh <<'E'\np \"${PRODIGY_V0}\"\nE"},
		{"sh <<'E'\np ${item.v} $x ${item.w|sh}\nE", "sh <<E\np \"\\${PRODIGY_V0}\" \\$x ${PRODIGY_V1}\nE"},
		{`bash -c "cd $DIR && p '${item.x}'"`, `bash -c "cd $DIR && p ''\"\${PRODIGY_V0}\"''"`},
		{`find . -exec sh -c 'p ${item.x} "$1"' _ {} \;`, `find . -exec sh -c 'p "${PRODIGY_V0}" "$1"' _ {} \;`},
		{`mywrap bash -ec 'p ${item.x}'`, `mywrap bash -ec 'p "${PRODIGY_V0}"'`},
		{`echo bash -c 'p ${item.x}'`, `echo bash -c 'p '"${PRODIGY_V0}"''`},
		{`eval p ${item.x}`, `eval p '"${PRODIGY_V0}"'`},
		{`bash <<< 'p ${item.x}'`, `bash <<< 'p "${PRODIGY_V0}"'`},
		{`ssh h 'p ${item.x|sh}'`, `ssh h 'p '"${PRODIGY_V0}"''`},
		{`ssh h '${item.command|raw}'`, `ssh h ''"${PRODIGY_V0}"''`},
		{`p $${item.v} "$${item.v}" '$${item.v}'`, `p '${item.v}' "\${item.v}" '${item.v}'`},
		{`p \${item.v} "\${item.v}"`, `p \${item.v} "\${item.v}"`},
		{`p \$${item.v} $$`, `p \$"${PRODIGY_V0}" $$`},
		{`p '${a.b}' ${item.v}`, `p '${a.b}' "${PRODIGY_V0}"`},
		{`p $HOME ${HOME} ${X:-y} ${#x} $1 ${item.v}`, `p $HOME ${HOME} ${X:-y} ${#x} $1 "${PRODIGY_V0}"`},
		{`p ${build-step.output} ${x-y}`, `p "${PRODIGY_V0}" ${x-y}`},
		{`p ${env:HOME} ${env:-x}`, `p "${PRODIGY_V0}" "${PRODIGY_V1}"`},
		{`p ${count} $count`, `p "${PRODIGY_V0}" $count`},
		{`count=1; p ${count} $count`, `count=1; p ${count} $count`},
		{`for item in a b; do p ${item} ${item%a}; done`, `for item in a b; do p ${item} ${item%a}; done`},
		{`sh -c 'for count in a; do p ${count}; done'`, `sh -c 'for count in a; do p ${count}; done'`},
		{`curl -H 'Key: $API_KEY'`, `curl -H 'Key: '"${PRODIGY_V0}"''`},
		{`p $((count + 1)) $count`, `p $((count + 1)) $count`},
		{`p $(($count + 1))`, `p $((${PRODIGY_V0} + 1))`},
		{`x=${item.list[*]}`, `x="${PRODIGY_V0}"`},
	} {
		t.Run(c.src, func(t *testing.T) {
			tmpl, err := Compile(c.src, Options{Names: testNames})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, tmpl.script()); diff != "" {
				t.Errorf("script (-want +got):\n%s", diff)
			}
		})
	}
}

func TestImpossiblePlacesAreRefused(t *testing.T) {
	for _, c := range []struct{ src, want string }{
		{"echo 'a", ""},
		{"echo 'a ${item.v}", "1:6: PS010 this is not valid sh: reached EOF without closing quote `'`"},
		{"echo \x00", "1:6: PS001 the script contains a NUL byte"},
		{`echo ${Item.s}`, "1:6: PS004 unknown value ${Item.s} (did you mean ${item.s}?)"},
		{`echo ${nothing.s}`, "1:6: PS004 unknown value ${nothing.s} (known: API_KEY, build-step, count, env, item, item_id, item_index, map, shell)"},
		{`echo ${item.v%.x}`, `1:6: PS002 "%" is not supported on prodigy values; assign to a shell variable first: v=${item.v}; then use ${v%...}`},
		{`echo ${item.v[-x]}`, `1:6: PS002 invalid index [-x]: use [0], ["key"] or [*]`},
		{`echo ${item.v|shell}`, `1:6: PS002 unknown filter |shell (known: raw, sh, json, url, int, ordinal, words, basename, dirname, noext, file, opt, pattern, default)`},
		{`echo ${item.v:-$HOME}`, "1:6: PS002 the default of ${item…} is literal; \"$\" is not expanded"},
		{`echo ${item.v:-x|sh}`, "1:6: PS002 a filter must come before the default: ${item|sh:-…}"},
		{`echo ${map%x}`, "1:6: PS002 ${map%x} applies a shell operator"},
		{"x\nssh h 'rm ${item.v}'", "2:11: PS022"},
		{`ssh h rm ${item.v}`, "PS022"},
		{`sudo sh -c 'rm ${item.v}'`, "PS022 ${item.v} is inside shell code run by sudo, which may not receive prodigy's environment; use ${item.v|sh} outside quotes"},
		{`env -i sh -c 'rm ${item.v}'`, "PS022"},
		{`docker run -i img sh <<E` + "\nrm ${item.v}\nE", "PS022"},
		{`ssh h 'rm "${item.v|sh}"'`, "PS029"},
		{`ssh h "rm \"${item.v|sh}\""`, "PS029"},
		{`[[ -v ${item.v} ]]`, "PS020"},
		{`test -v ${item.v}`, "PS024"},
		{`read ${item.v}`, "PS024"},
		{`unset "a[${item.v}]"`, "PS024"},
		{`printf -v ${item.v} x`, "PS024"},
		{`declare ${item.v}=x`, "PS024"},
		{`declare -n r=${item.v}`, "PS020"},
		{`alias x=${item.v}`, "PS024"},
		{`command declare -i n=${item.v}`, "PS024"},
		{`compgen -W "${item.v}"`, "PS024"},
		{`PS4=${item.v}`, "PS020"},
		{`ls +(${item.v})`, "PS020"},
		{"cat <<${item.v}\nx\n", "PS0"},
		{`sh -c "${x:-p ${item.v}}"`, "PS021"},
		{"x=`sh -c 'p ${item.v}'`", "PS028"},
		{"x=`cat <<'E'\n${item.v}\nE\n`", "PS025"},
		{`sh -c "echo \${item.v}"`, "PS023"},
		{`sh -c 'echo ${item.v'`, "PS"},
		{`sh -c 'if ${item.v}'`, "PS011"},
		{`p a${item.v[*]}`, "PS027"},
		{`${item.v[*]}`, "PS027"},
		{`p $((${item.v[*]}))`, "PS027"},
		{`p ${item.v} $PRODIGY_V0`, "1:14: PS003"},
	} {
		t.Run(c.src, func(t *testing.T) {
			_, err := Compile(c.src, Options{Names: testNames})
			switch {
			case err == nil && c.want != "":
				t.Errorf("got no error, want %s", c.want)
			case err != nil && (c.want == "" || !strings.Contains(err.Error(), c.want)):
				t.Errorf("got %v, want %s", err, c.want)
			}
		})
	}
}

func TestOtherInterpretersTakeNoPlaceholders(t *testing.T) {
	_, err := Compile("print('${item.v}')", Options{Names: testNames, Shell: "python3"})
	if err == nil || !strings.Contains(err.Error(), "PS030") {
		t.Errorf("got %v, want PS030", err)
	}
	if _, err := Compile("print('x')", Options{Names: testNames, Shell: "python3"}); err != nil {
		t.Errorf("got %v for a text without placeholders, want none", err)
	}
}

func TestWarningsNameTheirRule(t *testing.T) {
	for _, c := range []struct{ src, want string }{
		{`printf "${item.v}"`, "PS104"},
		{`${item.v} x`, "PS105"},
		{`p ${item.v|raw}`, "PS106"},
		{`eval "$(gen ${item.v})"`, "PS107"},
		{`gen ${item.v} | sh`, "PS108"},
		{`p ${item.v}; xargs -I{} sh -c 'p {}'`, "PS109"},
		{`xargs -I{} sh -c "p {} ${item.v}"`, "PS109"},
		{`python3 -c 'print("${item.v}")'`, "PS110"},
		{`mysql --execute=${item.v}`, "PS110"},
		{`make --eval 'all: ; @echo ${item.v}' all`, "PS110"},
		{`tar cf x --checkpoint-action=exec=${item.v} y`, "PS110"},
		{`rm ${item.v}`, "PS111"},
		{`for x in ${item.v}; do p; done`, "PS115"},
		{`p > ${item.v}`, "PS116"},
		{`p ${itm}`, "PS120"},
		{`p ${map.total} "${error}"`, "PS120"},
		{`p ${validation} ${item_id}`, "PS120"},
		{`itm=1; p ${itm}`, ""},
		{`for itm in a b; do p ${itm}; done`, ""},
		{`p "${itm:-none}" '${itm}' ${ITM} ${HOME} ${other}`, ""},
		{`. ./vars; p ${itm}`, ""},
		{`rm -- ${item.v}`, ""},
		{`cat ${map.results_file} ${map.total} ${item_id} ${shell.exit_code}`, ""},
		{`p ${item.v}`, ""},
	} {
		t.Run(c.src, func(t *testing.T) {
			tmpl, err := Compile(c.src, Options{Names: testNames})
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, d := range tmpl.Diags {
				got = append(got, d.Code)
			}
			if strings.Join(got, " ") != c.want {
				t.Errorf("got %v, want %q", tmpl.Diags, c.want)
			}
		})
	}
}

func TestReservedNamesSteerPrograms(t *testing.T) {
	for name, want := range map[string]bool{
		"PATH": true, "LD_PRELOAD": true, "BASH_FUNC_ls": true, "GIT_DIR": true, "PRODIGY_V0": true, "PYTHONPATH": true, "version": false, "PATHS": false,
	} {
		if got := ReservedName(name); got != want {
			t.Errorf("%s: got %v, want %v", name, got, want)
		}
	}
}

// script returns the script of a template without lists and code.
func (t *Template) script() string {
	return write(t.pieces, t.slots, nil, func(p *piece) string { return t.slots[p.slot].variable })
}
