package workflow

// CaptureFormat says what the captured output of a step is to later steps.
type CaptureFormat string

const (
	FormatString  CaptureFormat = "string"  // a text
	FormatJSON    CaptureFormat = "json"    // a JSON document, whose fields have names: ${name.field[0]}
	FormatLines   CaptureFormat = "lines"   // a list of its lines: ${name[0]}, ${name[*]}
	FormatNumber  CaptureFormat = "number"  // a number as JSON has them
	FormatBoolean CaptureFormat = "boolean" // true or false
)

// CaptureFormats returns all formats.
func CaptureFormats() []CaptureFormat {
	return []CaptureFormat{FormatString, FormatJSON, FormatLines, FormatNumber, FormatBoolean}
}

// checkOutput reports keys about output that the step has no use for.
func (r *reader) checkOutput(s Step, b *block) {
	if b.has("capture_format") && s.Capture == "" && !b.has("capture") && !b.has("capture_output") {
		r.fail(b.written["capture_format"].key, `"capture_format" needs "capture": without a name nothing is captured`)
	}
	if b.has("interpreter") && s.Shell == nil && !b.has("shell") {
		r.fail(b.written["interpreter"].key, `"interpreter" is only for shell steps`)
	}
}
