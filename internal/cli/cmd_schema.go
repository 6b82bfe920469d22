package cli

import (
	"io"

	"github.com/spf13/cobra"

	"prodigy/internal/workflow"
)

// newSchemaCommand returns the command that prints the schema, which is part of the program.
func newSchemaCommand(con *console) *cobra.Command {
	return &cobra.Command{
		Use:   "schema",
		Short: "Print the JSON Schema of workflow files",
		Long: `Print the JSON Schema (draft 7) of workflow files. For completion and validation in editors with
yaml-language-server, start the file with:

  # yaml-language-server: $schema=workflow.schema.json`,
		Example: "  prodigy schema > workflow.schema.json",
		Args:    exactly(),
		RunE: func(*cobra.Command, []string) error {
			_, err := io.WriteString(con.out, workflow.Schema())
			return err
		},
	}
}
