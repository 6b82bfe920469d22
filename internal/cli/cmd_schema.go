package cli

import (
	"io"

	"github.com/spf13/cobra"

	"prodigy/internal/workflow"
)

func newSchemaCommand(con *console) *cobra.Command {
	return &cobra.Command{
		Use:   "schema",
		Short: "Print the JSON Schema of workflow files, for editors",
		Long: `Print the JSON Schema (draft 7) of workflow files. Editors that use yaml-language-server offer completion and checks in a file
whose first line is

  # yaml-language-server: $schema=workflow.schema.json`,
		Example: "  prodigy schema > workflow.schema.json",
		Args:    exactly(),
		RunE: func(*cobra.Command, []string) error {
			_, err := io.WriteString(con.out, workflow.Schema())
			return err
		},
	}
}
