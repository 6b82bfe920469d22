package cli

import (
	"fmt"
	"runtime"

	"github.com/spf13/cobra"

	"prodigy/internal/term"
)

// newVersionCommand returns the command that prints the version.
func newVersionCommand(con *console) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "version",
		Short:   "Print the version",
		Example: "  prodigy version --json",
		Args:    exactly(),
		RunE:    func(*cobra.Command, []string) error { return runVersion(con) },
	}
	addFormat(con, cmd, term.JSON)
	return cmd
}

// runVersion prints the version of prodigy, of Go, and the platform.
func runVersion(con *console) error {
	platform := runtime.GOOS + "/" + runtime.GOARCH
	if con.format == term.JSON {
		return con.printJSON(map[string]string{
			"version": versionText(), "go": runtime.Version(),
			"platform": platform,
		})
	}
	_, err := fmt.Fprintf(con.out, "prodigy %s (%s, %s)\n", versionText(), runtime.Version(), platform)
	return err
}
