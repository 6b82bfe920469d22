package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
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
		Short: "Write the events of a job to a file, or with - to stdout",
		Args:  exactly("file"),
		RunE: func(cmd *cobra.Command, args []string) error {
			job, err := o.begin(nil)
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
	addChoice(cmd, (*string)(&o.format), "format", "form of the file, when its name does not say it", string(asJSONL), string(asJSON), string(asCSV))
	return cmd
}

// formatOf returns the format that the name of a file tells.
func formatOf(path string) format {
	switch strings.ToLower(filepath.Ext(path)) {
	case ".json":
		return asJSON
	case ".csv":
		return asCSV
	}
	return asJSONL
}

// runEventsExport leaves a file that was there as it is until the new one is whole.
func runEventsExport(con *console, job jobs.Job, path string, o eventsOptions) error {
	write := func(w io.Writer) error {
		out := bufio.NewWriter(w)
		err := printEvents(out, con.err, o.format, events.ReadLines(job.EventsDir(), o.query))
		return errors.Join(err, out.Flush())
	}
	if path == "-" {
		return write(con.out)
	}
	if err := writeWhole(path, write); err != nil {
		return fmt.Errorf("export the events: %w", err)
	}
	return nil
}

// writeWhole makes a file of what write writes, or replaces it by that: all or nothing. What is no regular file, such as a
// device or a pipe, is written to as it is.
func writeWhole(path string, write func(io.Writer) error) error {
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return writeInto(path, write)
	}
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real
	}
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*") // mode 0600
	if err != nil {
		return err
	}
	err = write(f)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return jobs.Rename(f.Name(), path)
}

func writeInto(path string, write func(io.Writer) error) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	return errors.Join(write(f), f.Close())
}
