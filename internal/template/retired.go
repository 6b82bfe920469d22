package template

import "strings"

// retired returns what to write instead of an expansion that asked the older tool for something: the output of a command, a date, a
// file or a field of JSON. Name is what the expansion begins with, rest what stands behind, and inside what stands between the colon
// and the brace. Of any other expansion it says nothing.
func retired(name, rest, inside string) string {
	if len(rest) < 2 || rest[0] != ':' || strings.IndexByte("-=?+ \t\n0123456789", rest[1]) >= 0 {
		return ""
	}
	switch name {
	case "cmd":
		return "write $(" + inside + ")"
	case "date":
		return "write $(date +" + inside + ")"
	case "file":
		return "write $(cat " + inside + ")"
	case "json":
		return "capture the text with capture_format: json, and name the field, as in ${<capture>.field}"
	}
	return ""
}

// source takes the expansion at i as one of the older tool, if it is one, and returns its end.
func (s *scanner) source(i, nameEnd int) (end int, ok bool) {
	end = closing(s.src, i)
	inside := strings.TrimSuffix(s.src[min(nameEnd+1, end):end], "}")
	instead := retired(s.src[i+2:nameEnd], s.src[nameEnd:], inside)
	if instead == "" {
		return 0, false
	}
	if command, ok := strings.CutPrefix(instead, "write $("); ok && s.noShell {
		instead = "no shell reads this text, so run " + strings.TrimSuffix(command, ")") + " in a step before, with `capture: name`, and write ${name} here"
	}
	s.add(foreign, i, end, nil, finding{codeUnknown, "unknown value " + s.src[i:end] + ": " + instead})
	return end, true
}
