package agent

import (
	"cmp"
	"encoding/json"
	"errors"
	"path/filepath"
	"slices"
	"strings"

	"prodigy/internal/ai"
	"prodigy/internal/check"
	"prodigy/internal/shell/template"
	"prodigy/internal/workflow"
)

// claude is a step that gives its text to the AI coding CLI, without a shell. Values in it are data, which the
// CLI must not take for options: so claude reads the prompt from its standard input. Other programs get it as
// their last argument, since not all of them would read it; a prompt that looks like an option is refused.
type claude struct{ *template.Plain }

func buildClaude(c *compiler, s *step, n scopeNames) command {
	p := c.plain(s, *s.Claude, n)
	if p == nil {
		return nil
	}
	return claude{p}
}

func (c claude) bind(r template.Resolver, x *Executor) (call, error) {
	if len(x.Claude) == 0 {
		return call{}, errors.New("no AI coding CLI is configured")
	}
	prompt, err := c.Bind(r)
	if err != nil {
		return call{}, err
	}
	run := x.readsClaude()
	if ReadsPrompt(x.Claude[0]) {
		if run == nil || run.raw {
			return call{argv: x.Claude, input: prompt, ai: true, aiRun: run}, nil
		}
		p := run.preset
		argv := slices.Concat(
			x.Claude, p.Args, []string{"--output-format", "stream-json", "--verbose"}, p.Options.Of("model", p.Model),
		)
		if slices.Equal(x.Claude, DefaultClaude()) {
			argv = slices.Concat(p.Argv, p.Args, p.Options.Of("model", p.Model))
		}
		run.prompt, run.sessions = prompt, true
		return aiCall(call{argv: argv}, run), nil
	}
	if err := checkPromptArgument(x.Claude[0], prompt); err != nil {
		return call{}, err
	}
	return call{argv: append(slices.Clip(x.Claude), prompt), ai: true, aiRun: run}, nil
}

// DefaultClaude returns the command of claude steps where nothing else is configured.
func DefaultClaude() []string { return []string{"claude", "--print"} }

// readsClaude returns how the output of the command of claude steps is read, or nil if it is not read. A command that is
// not claude, or that was told how to print, keeps its output; what it prints counts only if it is what claude
// prints.
func (x *Executor) readsClaude() *aiRun {
	p := x.Agents[workflow.DefaultAgent]
	if p == nil {
		return nil
	}
	said := func(arg string) bool { return arg == "--output-format" || strings.HasPrefix(arg, "--output-format=") }
	return &aiRun{
		preset: p, model: p.Model, lenient: true, limits: p.Limits(nil, nil, 0),
		raw: !ReadsPrompt(x.Claude[0]) || slices.ContainsFunc(x.Claude, said),
	}
}

func (c claude) render(r template.Resolver) string { return c.Render(r) }

// ReadsPrompt reports whether a program is claude, which takes its prompt from its standard input.
func ReadsPrompt(program string) bool {
	switch filepath.Base(program) {
	case "claude", "claude.exe", "claude.cmd":
		return true
	}
	return false
}

// lastWords returns the line that says best why an AI coding CLI failed: the last one on stdout, where they
// write their errors, or the error in it when it is a JSON object; else the last line of stderr. exact reports
// whether it came from JSON.
func lastWords(p Printed) (line string, exact bool) {
	line = check.LastLine(p.Output)
	var o map[string]json.RawMessage
	if json.Unmarshal([]byte(line), &o) != nil {
		return cmp.Or(line, check.LastLine(p.Stderr)), false
	}
	if words := ai.ErrorIn(o); words != "" {
		return words, true
	}
	return check.LastLine(p.Stderr), false
}

// ask returns what st asks for before it starts an AI coding CLI. It reports false if st starts none whose
// output is read.
func (r *run) ask(st *step) (ask AgentAsk, is bool) {
	ask = AgentAsk{Preset: workflow.DefaultAgent, Step: st.label}
	switch c := st.command.(type) {
	case aiStep:
		ask.Preset, ask.Model, ask.MaxCost, is = c.Preset(), c.Model, c.MaxCost, true
	case claude:
		is = len(r.x.Claude) > 0 && r.x.readsClaude() != nil
	}
	if p := r.x.Agents[ask.Preset]; ask.Model == "" && p != nil {
		ask.Model = p.Model
	}
	return ask, is
}
