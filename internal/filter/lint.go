package filter

// TypedComparison is a comparison of a field with constants of one type. A text is never equal to a number or a
// boolean, so the comparison holds for no item whose field has the other type.
type TypedComparison struct {
	At      int    // where it starts, in bytes
	Written string // how it is written

	// OfTexts reports whether the constants are texts that are spelled like numbers or booleans, and not such values.
	OfTexts bool

	field []step
}

// note keeps a comparison of a field with constants, which starts at start and ends before the token. Of a condition it
// keeps none: the types of its values are known only when it runs.
func (p *parser) note(field node, constants []node, start int) {
	if p.mistake != "" || p.terms != nil || field.path == nil || len(constants) == 0 {
		return
	}
	t := TypedComparison{At: start, Written: p.between(start, p.token.at), field: field.path}
	for i, c := range constants {
		if c.constant == nil {
			return
		}
		isText := c.constant.kind == Text
		spelled := isText && (c.constant.as(Number).kind == Number || c.constant.as(Boolean).kind == Boolean)
		if !spelled && c.constant.kind != Number && c.constant.kind != Boolean || i > 0 && isText != t.OfTexts {
			return
		}
		t.OfTexts = isText
	}
	p.typed = append(p.typed, t)
}
