package main

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"prodigy/internal/process"
)

const endLeftoversName = "end-leftovers"

// newEndLeftoversCommand returns the hidden command that each run starts beside itself: it ends the commands of a run that is killed.
func newEndLeftoversCommand(*console) *cobra.Command {
	return &cobra.Command{
		Use:    endLeftoversName + " <files> <register> <mark> <grace>",
		Short:  "End the commands of a prodigy that is killed, and remove their private files",
		Args:   exactly("files", "register", "mark", "grace"),
		Hidden: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			grace, err := time.ParseDuration(args[3])
			if err != nil {
				return usagef("grace: %w", err)
			}
			// It ends when the prodigy that started it ends, not sooner.
			signal.Ignore(os.Interrupt, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT)
			err = process.Watch(cmd.Context(), os.Stdin, args[1], args[2], grace)
			if err = errors.Join(err, os.RemoveAll(args[0])); err != nil {
				return fmt.Errorf("end leftovers: %w", err)
			}
			return nil
		},
	}
}

// watcherCommand returns the argv of end-leftovers for mapreduce.Config, or nil if the executable cannot be found; then no watcher runs.
func watcherCommand() []string {
	self, err := os.Executable()
	if err != nil {
		return nil
	}
	return []string{self, endLeftoversName}
}
