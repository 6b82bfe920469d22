package cli

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"prodigy/examples"
)

// newDemoCommand returns the command that writes a first workflow, which is part of the program.
func newDemoCommand(con *console) *cobra.Command {
	return onArgs(con, &cobra.Command{
		Use:   "demo [dir]",
		Short: "Write a first workflow to try",
		Long: `Write a workflow and its files to an empty directory, by default prodigy-demo, and print what to type there.
Two of its items recover, and one fails until you fix it.`,
		Example: "  prodigy demo",
		Args:    atMost(1),
	}, runDemo)
}

// runDemo writes the quickstart to a directory, with paths that start there.
func runDemo(_ context.Context, con *console, args []string) error {
	dir := append(args, "prodigy-demo")[0]
	if there, _ := os.ReadDir(dir); len(there) > 0 {
		return refusef("%s is not empty: name another directory, as in prodigy demo DIR", quoted(dir))
	}
	err := fs.WalkDir(examples.Quickstart, "quickstart", func(name string, entry fs.DirEntry, err error) error {
		path := filepath.Join(dir, strings.TrimPrefix(name, "quickstart"))
		if err != nil || entry.IsDir() {
			return os.MkdirAll(path, 0o777)
		}
		text, err := fs.ReadFile(examples.Quickstart, name)
		if err != nil {
			return err
		}
		return os.WriteFile(path, bytes.ReplaceAll(text, []byte("examples/quickstart/"), nil), 0o666)
	})
	if err != nil {
		return fmt.Errorf("write the demo: %w", err)
	}
	_, err = fmt.Fprintf(con.out, `Wrote a workflow to %s. Next, type:

  cd %[1]s && prodigy run workflow.yml
  prodigy why item_3
  echo "Title: The ladder" >> notes/untitled.txt && prodigy dlq retry --reduce

Two of its items recover, and one fails: why says what happened to it, and the last line fixes it.
`, quoted(dir))
	return err
}
