package main

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"prodigy/internal/spelling"
)

// wrongFlag says of a flag that could not be read what was meant, or what it takes.
func wrongFlag(cmd *cobra.Command, err error) error {
	if unknown, ok := errors.AsType[*pflag.NotExistError](err); ok {
		return usagef("%w%s", err, nearFlag(cmd, unknown))
	}
	value, isValue := errors.AsType[*pflag.InvalidValueError](err)
	if _, misspelt := errors.AsType[*strconv.NumError](err); !isValue || !misspelt {
		return usagef("%w", err)
	}
	want := "a whole number"
	switch value.GetFlag().Value.Type() {
	case "bool":
		want = "true or false"
	case "uint64":
		want = "a whole number from 0"
	}
	return usagef("invalid argument %q for %q flag: must be %s", value.GetValue(), "--"+value.GetFlag().Name, want)
}

// nearFlag guesses which long flag was meant.
func nearFlag(cmd *cobra.Command, unknown *pflag.NotExistError) string {
	if unknown.GetSpecifiedShortnames() != "" {
		return ""
	}
	name := unknown.GetSpecifiedName()
	best, least := "", len(name)/3+1
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if d := spelling.Distance(name, f.Name); d < least && !f.Hidden {
			best, least = f.Name, d
		}
	})
	if best == "" {
		return ""
	}
	return fmt.Sprintf(" (did you mean --%s?)", best)
}
