package main

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"prodigy/internal/spelling"
)

// wrongFlag turns a flag error into a usage error that says what was probably meant, or what the flag takes.
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

// nearFlag suggests a long flag: one with a similar name, or one that ends with it, such as --max-parallel for --parallel.
func nearFlag(cmd *cobra.Command, unknown *pflag.NotExistError) string {
	name, ok := longName(unknown)
	if !ok {
		return ""
	}
	var known []string
	near := ""
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		switch {
		case f.Hidden:
		case strings.HasSuffix(f.Name, "-"+name):
			near = f.Name
		default:
			known = append(known, f.Name)
		}
	})
	if near = cmp.Or(near, spelling.Nearest(name, known)); near == "" {
		return ""
	}
	return fmt.Sprintf(" (did you mean --%s?)", near)
}

// longName returns the name of the flag. The only short ones it knows are -P of xargs and -j of make.
func longName(unknown *pflag.NotExistError) (name string, ok bool) {
	switch name := unknown.GetSpecifiedName(); {
	case unknown.GetSpecifiedShortnames() == "":
		return name, true
	case name == "P", name == "j":
		return "parallel", true
	}
	return "", false
}
