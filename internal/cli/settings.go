package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"prodigy/internal/items"
	"prodigy/internal/job"
	"prodigy/internal/jobs"
	"prodigy/internal/mapreduce"
	"prodigy/internal/settings"
	"prodigy/internal/workflow"
)

// settingOptions are the flags of every command that reads a workflow file.
type settingOptions struct {
	// params are NAME=VALUE, and take precedence over those in paramFiles.
	params, paramFiles []string
	profile            string
	// args are values, and patterns globs of files, for each of which a standard workflow runs once.
	args, patterns []string
	// workspace (--workspace) is where the agents work, if not where the file says.
	workspace workflow.WorkspaceMode
}

// add gives cmd the flags.
func (o *settingOptions) add(cmd *cobra.Command) {
	addFlag(cmd, &o.params, "param", "set a workflow parameter, as NAME=VALUE (repeatable)", completeParam)
	addFlag(cmd, &o.paramFiles, "param-file", "read parameters from a YAML or JSON file (--param takes "+
		"precedence)")
	addFlag(cmd, &o.profile, "profile", "use this profile of the workflow", offering(profilesNamed))
	addFlag(cmd, &o.args, "args",
		"run a standard workflow once per value, as $ARG (repeatable)")
	addFlag(cmd, &o.patterns, "map",
		"run a standard workflow once per matching file, such as 'src/**/*.py' (repeatable)")
}

// addWorkspace adds the flag --workspace to cmd.
func (o *settingOptions) addWorkspace(cmd *cobra.Command) {
	const usage = "override where items run, each in a workspace or all in the working directory"
	addChoice(cmd, &o.workspace, "workspace", usage, workflow.GitWorkspace, workflow.SharedWorkspace)
}

// values returns the values of --args and --map, for each of which a standard workflow runs once.
func (o settingOptions) values(ctx context.Context, dir string) ([]string, error) {
	values := slices.Clone(o.args)
	for _, pattern := range o.patterns {
		before := len(values)
		for it, err := range items.Select(ctx,
			&workflow.Map{Input: workflow.Input{Glob: []string{pattern}}, OnEmpty: workflow.EmptyIsOK},
			items.Env{Dir: dir}) {
			var name string
			if err == nil {
				err = json.Unmarshal(it.Data, &name)
			}
			if err != nil {
				return nil, refusef("--map %s: %w", pattern, err)
			}
			values = append(values, name)
		}
		if len(values) == before {
			return nil, refusef("--map %s: no file matches", pattern)
		}
	}
	return values, nil
}

// resolve finds the settings of w in the current directory.
func (o settingOptions) resolve(ctx context.Context, w *workflow.Workflow, dir string,
	p settings.Purpose,
) (settings.Settings, error) {
	given, err := settings.Given(w, o.paramFiles, o.params)
	if err != nil {
		return settings.Settings{}, refusef("%w", err)
	}
	return resolve(ctx, w, settings.Options{
		Purpose: p, Dir: dir, Environ: os.Environ(), Profile: o.profile,
		Params: given,
	})
}

// resolve finds the settings of w. A signal ends the commands that this may run.
func resolve(ctx context.Context, w *workflow.Workflow, o settings.Options) (settings.Settings, error) {
	if o.Purpose == settings.ToRun {
		var stop context.CancelFunc
		ctx, stop = signal.NotifyContext(ctx, stopSignals()...)
		defer stop()
	}
	s, err := settings.Resolve(ctx, w, o)
	if err != nil && !isA[*workflow.InvalidError](err) {
		err = refusef("%w", err)
	}
	return s, err
}

// resolveAgain finds the settings of a job again. Secrets, files and commands are read again. A replacement workflow may
// have other secrets and lack some parameters. set has other values for parameters and variables, as NAME=VALUE.
func resolveAgain(ctx context.Context, job jobs.Job, w *workflow.Workflow, replacement *mapreduce.Replacement,
	set []string,
) (settings.Settings, error) {
	options, err := settingsOf(job)
	if err != nil {
		return settings.Settings{}, err
	}
	if replacement != nil {
		options.Source = replacement.Path
		options.Params = slices.DeleteFunc(options.Params, func(a workflow.Argument) bool {
			_, unknown := workflow.ParameterNamed(w.Parameters, a.Name)
			return unknown != nil
		})
	}
	options.Set = map[string]string{}
	for _, text := range set {
		name, written, ok := strings.Cut(text, "=")
		if !ok {
			return settings.Settings{}, usagef("--set %s: must be NAME=VALUE", text)
		}
		p, unknown := workflow.ParameterNamed(w.Parameters, name)
		if unknown != nil {
			options.Set[name] = written
			continue
		}
		value, err := p.FromText(written)
		if err != nil {
			return settings.Settings{}, refusef("--set: %w", err)
		}
		options.Params = append(options.Params, workflow.Argument{Name: name, Value: []byte(value)}) // the last one counts
	}
	found, err := resolve(ctx, w, options)
	if len(options.Set) > 0 && err != nil {
		return found, fmt.Errorf("--set: %w", err)
	}
	return found, err
}

// settingsOf returns the options that a job was started with.
func settingsOf(place jobs.Job) (settings.Options, error) {
	meta, err := place.ReadMeta()
	if err != nil {
		return settings.Options{}, &job.FilesError{JobID: place.ID, Err: err}
	}
	return settings.Options{
		Dir: meta.Dir, Environ: os.Environ(), Profile: meta.Profile, Params: settings.Arguments(meta.Params),
		Source: meta.WorkflowPath,
	}, nil
}
