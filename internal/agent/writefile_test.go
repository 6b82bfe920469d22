//go:build unix

package agent

import (
	"testing"

	"golang.org/x/sync/errgroup"

	"prodigy/internal/workflow"
)

// TestAProgramThatIsWrittenRunsInTheNextStep has many others start commands meanwhile, which must not hold the file.
func TestAProgramThatIsWrittenRunsInTheNextStep(t *testing.T) {
	mode := 0o755
	x := local(t)
	var group errgroup.Group
	group.SetLimit(64)
	for range 400 {
		dir := t.TempDir()
		group.Go(func() error {
			a := ofItem(workflow.Step{WriteFile: &workflow.WriteFile{
				Path: workflow.Text{Value: "program"}, Content: workflow.Text{Value: "#!/bin/sh\nexit 0\n"}, Mode: new(workflow.Permissions(mode)),
			}}, shellStep("./program"))
			a.Dir = dir
			o, err := x.Execute(t.Context(), a)
			if o.Failure != nil {
				t.Errorf("got %s, want success", o.Failure.Message)
			}
			return err
		})
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
}
