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
		Long: `Print the events of a job that contain a text, in their lines as they are written or in any of their fields. The case of
letters does not matter, but for --regex, where (?i) at the beginning says so.`,
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

// searched returns what tells whether a line contains what is searched.
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
