package settings

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"prodigy/internal/workflow"
)

func parse(t *testing.T, text string) *workflow.Workflow {
	t.Helper()
	w, err := workflow.Parse("w.yml", []byte(text), workflow.ParseOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

const steps = "commands: [{shell: a}]\n"

func TestTheHigherOfTwoValuesIsKnown(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "a.env"), []byte("B=file\nC=file\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	w := parse(t, steps+`
env_files: a.env
env: {C: env, D: env, E: "${D}", F: env}
profiles: {p: {D: profile}}
secrets: {F: SOURCE}
parameters: {n: {default: 3}}
`)
	s, err := Resolve(context.Background(), w, Options{Dir: dir, Environ: []string{"A=inherited", "B=inherited", "SOURCE=the secret"}, Profile: "p"})
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"B": "file", "C": "env", "D": "profile", "E": "profile", "F": "the secret", "n": "3"} {
		if got, ok := s.Lookup(name); !ok || got != want {
			t.Errorf("%s: got %q, %v, want %s", name, got, ok, want)
		}
	}
	if _, ok := s.Lookup("A"); ok {
		t.Error("an inherited variable is known")
	}
}

func TestNoSecretIsAmongWhatAttemptsCarry(t *testing.T) {
	w := parse(t, steps+"env:\n  A: {value: hunter2, secret: true}\n  B: {command: echo hunter3, secret: true}\nsecrets: {C: SOURCE}\n")
	s, err := Resolve(context.Background(), w, Options{Dir: t.TempDir(), Environ: append(os.Environ(), "SOURCE=hunter4")})
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range s.Env {
		if v.Value.Value != "" || v.Command != nil || !v.Secret {
			t.Errorf("got %+v, want a name", v)
		}
	}
	if got := s.Mask.Text("hunter2 hunter3 hunter4"); got != "*** *** ***" {
		t.Errorf("got %s", got)
	}
}

func TestARedactedSecretComesBackFromItsFile(t *testing.T) {
	source := steps + "env:\n  A: {value: 'hunter2 é', secret: true}\n  B: {value: \"${SOURCE}\", secret: true} # hunter2\n  C: {secret: true, value: plain}\n"
	redacted := parse(t, source).Redact([]byte(source))
	if want := strings.NewReplacer("'hunter2 é'", "'***'", "value: plain", `value: "***"`).Replace(source); string(redacted) != want {
		t.Fatalf("got %s, want %s", redacted, want)
	}
	file := filepath.Join(t.TempDir(), "w.yml")
	if err := os.WriteFile(file, []byte(source), 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := Resolve(context.Background(), parse(t, string(redacted)), Options{Environ: []string{"SOURCE=x"}, Source: file})
	if err != nil || s.Secrets["A"] != "hunter2 é" || s.Secrets["B"] != "x" || s.Secrets["C"] != "plain" {
		t.Errorf("got %v, %v", s.Secrets, err)
	}
}

func TestACheckMissesNothingThatOnlyARunNeeds(t *testing.T) {
	w := parse(t, steps+"secrets: {A: NOT_SET, B: {file: none}, C: {command: touch ran}}\nparameters: {p: {required: true}}\n")
	dir := t.TempDir()
	if _, err := Resolve(context.Background(), w, Options{Purpose: ToCheck, Dir: dir}); err != nil {
		t.Errorf("got %v", err)
	}
	for purpose, want := range map[Purpose]int{ToSimulate: 1, ToPlan: 3} {
		var invalid *workflow.InvalidError
		if _, err := Resolve(context.Background(), w, Options{Purpose: purpose, Dir: dir}); !errors.As(err, &invalid) || len(invalid.Problems) != want {
			t.Errorf("purpose %d: got %v, want the %d that are missing, all at once", purpose, err, want)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "ran")); err == nil {
		t.Error("a command was run")
	}
}
