package items

import (
	"bytes"
	"fmt"
	"testing"

	"prodigy/internal/workflow"
)

// BenchmarkSource selects 20,000 items in each format, and through each stage that has to see them all.
func BenchmarkSource(b *testing.B) {
	data := map[string]*bytes.Buffer{}
	for _, format := range workflow.Formats() {
		data[format] = new(bytes.Buffer)
	}
	data["csv"].WriteString("id,name,text\n")
	data["tsv"].WriteString("id\tname\ttext\n")
	data["json"].WriteString("[0")
	for i := range 20_000 {
		fmt.Fprintf(data["csv"], "%d,\"item, %d\",%q\n", i, i, benchText)
		fmt.Fprintf(data["tsv"], "%d\titem %d\t%s\n", i, i, benchText)
		fmt.Fprintf(data["json"], ",\n{\"id\": %d, \"text\": %q}", i, benchText)
		fmt.Fprintf(data["jsonl"], "{\"id\": %d, \"text\": %q}\n", i, benchText)
		fmt.Fprintf(data["lines"], "%d %s\n", i, benchText)
		fmt.Fprintf(data["nul"], "%d %s\x00", i, benchText)
		fmt.Fprintf(data["yaml"], "- {id: %d, text: %q}\n", i, benchText)
	}
	data["json"].WriteString("]")
	files := map[string]string{}
	for format, text := range data {
		files["data."+format] = text.String()
	}
	e := folder(b, files)
	e.Temp = b.TempDir()
	for _, format := range workflow.Formats() {
		measure(b, format, &workflow.Map{Input: workflow.Input{File: []string{"data." + format}, Format: format}}, e)
	}
	jsonl := workflow.Input{File: []string{"data.jsonl"}}
	measure(b, "SortBy", &workflow.Map{Input: jsonl, SortBy: workflow.Text{Value: "id DESC"}}, e)
	measure(b, "Distinct", &workflow.Map{Input: jsonl, Distinct: workflow.Text{Value: "id"}}, e)
	measure(b, "Key", &workflow.Map{Input: jsonl, Key: workflow.Text{Value: "id"}}, e)
}

func measure(b *testing.B, name string, m *workflow.Map, e Env) {
	b.Run(name, func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			count := 0
			for _, err := range Select(b.Context(), m, e) {
				if err != nil {
					b.Fatal(err)
				}
				count++
			}
			if count < 20_000 {
				b.Fatalf("got %d items, want 20,000", count)
			}
		}
	})
}
