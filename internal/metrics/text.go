package metrics

import (
	"bufio"
	"io"
	"strconv"
	"strings"
)

// ContentType is that of the text format.
const ContentType = "text/plain; version=0.0.4; charset=utf-8"

// Write writes families in Prometheus' text format, version 0.0.4.
func Write(w io.Writer, families []Family) error {
	b := bufio.NewWriter(w)
	for _, f := range families {
		_, _ = b.WriteString("# HELP " + f.Name + " " + escape(f.Help, false) + "\n# TYPE " + f.Name + " " +
			string(f.Kind) + "\n")
		for _, s := range f.Samples {
			if s.Counts == nil {
				writeSample(b, f.Name, s.Labels, s.Value)
				continue
			}
			sum := uint64(0)
			for i, n := range s.Counts.Counts {
				sum += n
				le := "+Inf"
				if i < len(bounds) {
					le = text(bounds[i])
				}
				writeSample(b, f.Name+"_bucket", append(s.Labels[:len(s.Labels):len(s.Labels)], Label{"le", le}),
					float64(sum))
			}
			writeSample(b, f.Name+"_sum", s.Labels, s.Counts.Sum.Seconds())
			writeSample(b, f.Name+"_count", s.Labels, float64(s.Counts.N))
		}
	}
	return b.Flush()
}

func writeSample(b *bufio.Writer, name string, labels []Label, value float64) {
	_, _ = b.WriteString(name)
	for i, l := range labels {
		_ = b.WriteByte("{,"[min(i, 1)])
		_, _ = b.WriteString(l.Name + `="` + escape(l.Value, true) + `"`)
	}
	if len(labels) > 0 {
		_ = b.WriteByte('}')
	}
	_, _ = b.WriteString(" " + text(value) + "\n")
}

func text(value float64) string { return strconv.FormatFloat(value, 'g', -1, 64) }

// escape makes a text one line, as the format asks for. Bytes that are not UTF-8 are replaced.
func escape(s string, quoted bool) string {
	s = strings.ToValidUTF8(s, "\ufffd")
	s = strings.ReplaceAll(s, `\`, `\\`)
	s = strings.ReplaceAll(s, "\n", `\n`)
	if quoted {
		s = strings.ReplaceAll(s, `"`, `\"`)
	}
	return s
}
