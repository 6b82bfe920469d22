//go:build man

package cli

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
	"github.com/spf13/pflag"
)

var manDir = flag.String("man", "", "directory to write the manual pages to")

// manPages returns the manual pages by file name. Their date is fixed, so that they change only with the program.
func manPages(t *testing.T, root *cobra.Command) map[string][]byte {
	t.Helper()
	date := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	pages := map[string][]byte{}
	for _, cmd := range append([]*cobra.Command{root}, commandsOf(root)...) {
		escapeMarkdown(cmd)
		var b bytes.Buffer
		title := strings.ReplaceAll(cmd.CommandPath(), " ", "-")
		header := doc.GenManHeader{Title: strings.ToUpper(title), Section: "1", Date: &date, Source: "prodigy", Manual: "prodigy"}
		if err := doc.GenMan(cmd, &header, &b); err != nil {
			t.Fatal(err)
		}
		pages[title+".1"] = b.Bytes()
	}
	return pages
}

// escapeMarkdown escapes what the generator of manual pages would take for HTML and leave out, such as <workflow>. It puts the examples into a
// block of code, where nothing is special.
func escapeMarkdown(cmd *cobra.Command) {
	escape := strings.NewReplacer("<", "\\<", "*", "\\*").Replace
	cmd.Use, cmd.Short, cmd.Long = escape(cmd.Use), escape(cmd.Short), escape(cmd.Long)
	cmd.Flags().VisitAll(func(f *pflag.Flag) { f.Usage = escape(f.Usage) })
}

// textsOf returns what the manual page of a command is made of, except examples.
func textsOf(cmd *cobra.Command) string {
	texts := cmd.Use + "\n" + cmd.Short + "\n" + cmd.Long
	cmd.Flags().VisitAll(func(f *pflag.Flag) { texts += "\n" + f.Usage })
	return texts
}

// Every command has a manual page; make man writes them.
func TestManualPages(t *testing.T) {
	dir := *manDir
	if dir == "" {
		dir = t.TempDir()
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	angled, found := map[string][]string{}, 0
	for _, cmd := range commandsOf(documented(t)) {
		words := regexp.MustCompile(`<[^<>\n]*>`).FindAllString(textsOf(cmd), -1)
		angled[strings.ReplaceAll(cmd.CommandPath(), " ", "-")+".1"] = words
		found += len(words)
	}
	if found < 5 {
		t.Errorf("found %d words in angle brackets, which cannot be all", found)
	}
	for name, page := range manPages(t, documented(t)) {
		for _, word := range angled[name] {
			if !bytes.Contains(page, []byte(word)) {
				t.Errorf("%s lacks %s", name, word)
			}
		}
		for _, part := range []string{".SH NAME", ".SH SYNOPSIS", ".SH DESCRIPTION"} {
			if !bytes.Contains(page, []byte(part)) {
				t.Errorf("%s has no %s", name, part)
			}
		}
		if err := os.WriteFile(filepath.Join(dir, name), page, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
