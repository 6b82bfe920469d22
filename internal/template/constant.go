package template

import (
	"fmt"
	"strings"
)

// CompileConstant returns the text for an interpreter that no value can be put into the text of: a value would be code there.
// $${name} becomes ${name}; what nobody declared stays as it is. The error is a *CompileError.
func CompileConstant(src string, n Names, interpreter string) (string, error) {
	c := newCompiler(src, Options{Names: n})
	if err := c.scan(); err != nil {
		return "", err
	}
	var b strings.Builder
	last := 0
	for _, r := range c.refs {
		b.WriteString(src[last:r.start])
		last = r.end
		switch r.kind {
		case literal:
			b.WriteString(r.written[1:])
		case foreign, short:
			b.WriteString(r.written)
		default:
			c.report(Error, r.start, finding{codeShellName, fmt.Sprintf(
				"%s cannot be put into code for %s: pass it by the step's env and read the variable there, or write $%s for this very text", r.written, interpreter, r.written)})
		}
	}
	b.WriteString(src[last:])
	return b.String(), c.failure()
}

// IsShell tells whether name is a shell whose texts can hold placeholders.
func IsShell(name string) bool {
	_, ok := dialectsOf(name)
	return ok && name != ""
}
