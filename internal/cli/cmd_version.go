package cli

import (
	"fmt"
	"runtime"

	"github.com/spf13/cobra"

	"prodigy/internal/term"
)

// newVersionCommand returns the command that prints the version.
func newVersionCommand(con *console) *cobra.Command {
	var f term.Format
	cmd := &cobra.Command{
		Use:     "version",
		Short:   "Print the version",
		Example: "  prodigy version --json",
		Args:    exactly(),
		RunE:    func(*cobra.Command, []string) error { return runVersion(con, f) },
	}
	addFormat(cmd, &f, term.JSON)
	return cmd
}

// runVersion prints the version of prodigy, of Go, and the platform.
func runVersion(con *console, f term.Format) error {
	platform := runtime.GOOS + "/" + runtime.GOARCH
	if f == term.JSON {
		return term.PrintJSON(con.out, map[string]string{
			"version": versionText(), "go": runtime.Version(),
			"platform": platform,
		})
	}
	_, err := fmt.Fprintf(con.out, "prodigy %s (%s, %s)\n", versionText(), runtime.Version(), platform)
	return err
}
