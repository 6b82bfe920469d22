package main

import (
	"io"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"prodigy/internal/events"
	"prodigy/internal/jobs"
)

func newEventsExportCommand(con *console) *cobra.Command {
	var o eventsOptions
	cmd := &cobra.Command{
		Use:   "export <file>",
		Short: "Write the events of a job to a file (- is stdout)",
		Args:  exactly("file"),
		RunE: func(cmd *cobra.Command, args []string) error {
			job, err := o.begin(cmd, nil)
			if err != nil {
				return err
			}
			if !cmd.Flags().Changed("format") {
				o.format = formatOf(args[0])
			}
			return unlessClosed(runEventsExport(con, job, args[0], o))
		},
	}
	o.add(cmd)
	o.format = asJSONL
	addChoice(cmd, (*string)(&o.format), "format", "format of the file; by default that of its extension", string(asJSONL), string(asJSON), string(asCSV))
	return cmd
}

// formatOf returns the format for the extension of a file, by default JSONL.
func formatOf(path string) format {
	switch strings.ToLower(filepath.Ext(path)) {
	case ".json":
		return asJSON
	case ".csv":
		return asCSV
	}
	return asJSONL
}

// runEventsExport writes the events to a file, replacing it only once the new one is complete.
func runEventsExport(con *console, job jobs.Job, path string, o eventsOptions) error {
	return writeOut(con, path, func(w io.Writer) error {
		return printEvents(w, con.err, o.format, look{}, events.ReadLines(job.EventsDir(), o.query))
	})
}
