package main

import (
	"regexp"

	"github.com/spf13/cobra"

	"prodigy/internal/events"
)

func newEventsSearchCommand(con *console) *cobra.Command {
	var o eventsOptions
	var isRegex bool
	cmd := &cobra.Command{
		Use:   "search <text>",
		Short: "Print the events of a job that contain a text",
		Long: `Print the events of a job that contain a text, in the line as it is in the log or in any field. Case is ignored, except with
--regex: begin the expression with (?i) there.`,
		Args: exactly("text"),
		RunE: func(cmd *cobra.Command, args []string) error {
			matches, err := searched(args[0], isRegex)
			if err != nil {
				return err
			}
			job, err := o.begin(cmd, nil)
			if err != nil {
				return err
			}
			o.query.Matches = matches
			return runEventsList(con, job, o)
		},
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	o.add(cmd)
	addFormat(cmd, &o.format, asJSON, asJSONL, asCSV)
	cmd.Flags().BoolVar(&isRegex, "regex", false, "the text is a regular expression")
	return cmd
}

// searched returns a function that reports whether a line matches.
func searched(text string, isRegex bool) (func(line []byte) bool, error) {
	if text == "" {
		return nil, usagef("the text to search is empty")
	}
	if !isRegex {
		return events.ContainingText(text), nil
	}
	expr, err := regexp.Compile(text)
	if err != nil {
		return nil, usagef("%w", err)
	}
	return events.Containing(expr), nil
}
