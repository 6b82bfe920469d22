package workflow

// At returns the place in the file of a line and column inside the value, both from 1. It is exact for a literal block (|)
// and for a text on one line without escapes; of any other text it knows the first line, and else only where the text starts.
func (t Text) At(line, col int) Pos {
	if t.Block {
		return Pos{Line: t.Pos.Line + line, Col: t.Indent + col}
	}
	if line > 1 {
		return t.Pos
	}
	return Pos{Line: t.Pos.Line, Col: t.Pos.Col + col - 1}
}
