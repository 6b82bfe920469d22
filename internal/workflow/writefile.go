package workflow

import (
	"strconv"

	"gopkg.in/yaml.v3"
)

// WriteFile is a write_file step.
type WriteFile struct {
	Path       Text       `yaml:"path" json:"path"`                         // in the working directory, which it never leads out of; required
	Content    Text       `yaml:"content" json:"content"`                   // what the file is to hold; required
	Format     FileFormat `yaml:"format" json:"format,omitempty"`           // what the content must be; default text
	Mode       *int       `yaml:"mode" json:"mode,omitempty"`               // permissions, in octal; default those it has, else 0644 without what the umask takes
	CreateDirs bool       `yaml:"create_dirs" json:"create_dirs,omitempty"` // make the directories that are missing; default false
}

// FileFormat is the format that the content of a written file must have.
type FileFormat string

const (
	TextFile FileFormat = "text"
	JSONFile FileFormat = "json"
	YAMLFile FileFormat = "yaml"
)

func (r *reader) writeFile(e entry) *WriteFile {
	w := new(WriteFile)
	keys := r.fields(w)
	keys = withReader(keys, "content", func(e entry) { set(&w.Content)(r.maybeBlankText(e)) })
	keys = withReader(keys, "format", func(e entry) { set(&w.Format)(word(r, e, TextFile, JSONFile, YAMLFile)) })
	keys = withReader(keys, "mode", func(e entry) { setPointer(&w.Mode)(r.permissions(e)) })
	if b := r.block("write_file", e, keys); b != nil {
		r.require(b, "path")
		r.require(b, "content")
	}
	return w
}

// permissions reads permissions in octal, in quotes or not.
func (r *reader) permissions(e entry) (int, bool) {
	const least, all = 0o10, 0o777
	n, err := strconv.ParseInt(e.value.Value, 8, 32)
	if e.value.Kind != yaml.ScalarNode || err != nil || n < least || n > all || len(e.value.Value) < 3 {
		r.wrongType(e, `permissions in octal, as in "0644"`)
		return 0, false
	}
	return int(n), true
}
