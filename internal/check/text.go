package check

import (
	"cmp"
	"errors"
	"fmt"
	"iter"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"
)

// ByKey yields the entries of a map in the order of their keys, so that what is said or made of them is the same each
// time. Entries may be deleted meanwhile.
func ByKey[K cmp.Ordered, V any](m map[K]V) iter.Seq2[K, V] {
	return func(yield func(K, V) bool) {
		for _, key := range slices.Sorted(maps.Keys(m)) {
			if !yield(key, m[key]) {
				return
			}
		}
	}
}

// Each returns a list with what of returns for each element of another.
func Each[T, R any](list []T, of func(T) R) []R {
	all := make([]R, len(list))
	for i, one := range list {
		all[i] = of(one)
	}
	return all
}

// First returns the first elements of a list, at most so many.
func First[T any](list []T, most int) []T { return list[:min(len(list), most)] }

// Counted returns a number with its noun: "1 try", "2 tries".
func Counted(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	if stem, ok := strings.CutSuffix(noun, "ry"); ok {
		noun = stem + "rie"
	}
	return strconv.Itoa(n) + " " + noun + "s"
}

// Some formats a number if it is more than 0, and returns "" otherwise.
func Some[N int | int64 | float64](format string, n N) string {
	if n > 0 {
		return fmt.Sprintf(format, n)
	}
	return ""
}

// Said returns the parts of a text that are not empty.
func Said(parts ...string) []string {
	return slices.DeleteFunc(parts, func(part string) bool { return part == "" })
}

// Moment returns a time as people in this zone read it, to the second.
func Moment(t time.Time) string { return t.Local().Format(time.DateTime) }

// Must returns v. The error is that of something that cannot fail, such as making a key.
func Must[V any](v V, err error) V {
	if err != nil {
		panic("BUG: " + err.Error())
	}
	return v
}

// Unless returns err, or nil if it is what was expected, such as fs.ErrNotExist of a file that need not be there.
func Unless(err, expected error) error {
	if errors.Is(err, expected) {
		return nil
	}
	return err
}

// Quietly calls do and drops its error: that of closing what was only read from says nothing.
func Quietly(do func() error) { _ = do() }

// Join calls do, such as the Close of a file, and joins its error to err.
func Join(err *error, do func() error) { *err = errors.Join(*err, do()) }

// Few lists the first of some names, and says how many more there are.
func Few(names []string, most int) string {
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
}

// Escape returns a text with a backslash before each of some ASCII characters.
func Escape(text, special string) string {
	var b strings.Builder
	for _, c := range []byte(text) {
		if strings.IndexByte(special, c) >= 0 {
			b.WriteByte('\\')
		}
		b.WriteByte(c)
	}
	return b.String()
}

// WholeStart returns where the first whole character of a text begins. Bytes that are no UTF-8 count as characters.
func WholeStart[T string | []byte](text T) int {
	for i := range min(len(text), utf8.UTFMax) {
		if utf8.RuneStart(text[i]) {
			return i
		}
	}
	if len(text) < utf8.UTFMax {
		return len(text)
	}
	return 0
}

// WholeEnd returns where the last whole character of a text ends. Bytes that are no UTF-8 count as characters.
func WholeEnd[T string | []byte](text T) int {
	for i := len(text) - 1; i >= max(0, len(text)-utf8.UTFMax); i-- {
		if !utf8.RuneStart(text[i]) {
			continue
		}
		if utf8.FullRune([]byte(text[i:])) {
			break
		}
		return i
	}
	return len(text)
}

// LastWritten returns what a terminal shows of a line in which later texts overwrite earlier ones, as those of a
// progress bar do. Blanks at its end are removed.
func LastWritten(line string) string {
	line = strings.TrimRightFunc(line, unicode.IsSpace)
	return line[strings.LastIndexByte(line, '\r')+1:]
}

// colour is what sets the colour of a terminal (ECMA-48, 8.3.117).
var colour = Regexp(`\x1b\[[0-9;]*m`)

// Regexp returns a regular expression that is compiled when it is asked first: most runs need few of them.
func Regexp(expr string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expr) })
}

// WithoutColours removes the colours of a terminal, which stand in the middle of phrases: "\x1b[31merror\x1b[0m: …".
func WithoutColours(text string) string {
	if !strings.Contains(text, "\x1b[") {
		return text
	}
	return colour().ReplaceAllString(text, "")
}

// LastLine returns the last line of a text that is not blank, without colours.
func LastLine(text string) string {
	text = strings.TrimSpace(WithoutColours(text))
	return strings.TrimSpace(text[strings.LastIndexByte(text, '\n')+1:])
}
