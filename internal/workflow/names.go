package workflow

// BuiltinNames returns the names of prodigy's own values in step texts, which ids and captures cannot take.
func BuiltinNames() []string {
	return []string{
		"item", "map", "shell", "claude", "last", "workflow", "job", "worker", "env", "error", "validation",
		"item_id", "item_index", "item_total", "attempt",
	}
}

// isName tells whether s is a letter or underscore followed by letters, digits and underscores.
func isName(s string) bool {
	for i := range len(s) {
		if !isNameByte(s[i], i == 0) {
			return false
		}
	}
	return s != ""
}

// isLabel tells whether s is a name that may hold dashes after its first character.
func isLabel(s string) bool {
	for i := range len(s) {
		if !isNameByte(s[i], i == 0) && (i == 0 || s[i] != '-') {
			return false
		}
	}
	return s != ""
}

func isNameByte(c byte, first bool) bool {
	switch {
	case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', c == '_':
		return true
	default:
		return !first && '0' <= c && c <= '9'
	}
}
