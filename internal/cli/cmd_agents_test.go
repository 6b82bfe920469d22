package cli

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

func TestVersionsOfCLIs(t *testing.T) {
	for script, want := range map[string]string{
		"echo tool 1.2; echo more":       "tool 1.2",
		"exit 0":                         "unknown",
		"echo 1.2; exit 3":               "unknown",
		"trap '' TERM; sleep 100 & wait": "no response in 100ms",
	} {
		path := filepath.Join(t.TempDir(), "tool")
		if err := os.WriteFile(path, []byte("#!/bin/sh\n"+script+"\n"), 0o700); err != nil {
			t.Fatal(err)
		}
		patience := 20 * time.Second
		if want == "no response in 100ms" {
			patience = 100 * time.Millisecond
		}
		if got := versionOf(t.Context(), path, patience); got != want {
			t.Errorf("%s: got %q, want %q", script, got, want)
		}
	}
}
