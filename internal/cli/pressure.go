package cli

import (
	"fmt"
	"io"

	"prodigy/internal/term"
	"prodigy/internal/workflow"
)

// stepRatesOf returns how often steps of agents start at most, for people.
func stepRatesOf(w *workflow.Workflow) (rates []string) {
	if w.Map == nil {
		return nil
	}
	for i, s := range w.Map.AgentTemplate {
		if s.Rate == nil {
			continue
		}
		text := "step " + s.Label(i) + ": at most " + s.Rate.Limit.String()
		if s.Rate.Per != nil {
			text += " for each " + s.Rate.Per.Value
		}
		rates = append(rates, text)
	}
	return rates
}

// stragglersOf returns what becomes of attempts that take unusually long, for people; "": nothing does.
func stragglersOf(w *workflow.Workflow) string {
	if w.Map == nil || w.Map.Straggler == nil {
		return ""
	}
	text := "stragglers: after " + w.Map.Straggler.After.String()
	if w.Map.Straggler.Stop {
		return text + ", which are stopped"
	}
	return text + ", which are told"
}

// shownIf returns a list with a text, if there is one.
func shownIf(text string) []string {
	if text == "" {
		return nil
	}
	return []string{text}
}

// rateOf returns how often the agents of a workflow start at most, for people; "": there is no limit.
func rateOf(w *workflow.Workflow) string {
	if w.Map == nil || w.Map.Rate.Limit.Count == 0 {
		return ""
	}
	text := w.Map.Rate.Limit.String()
	if per := w.Map.Rate.Per; per != nil {
		text += " for each " + per.Value
	}
	return text
}

func printRate(w io.Writer, rate string) {
	if rate != "" {
		_, _ = fmt.Fprintf(w, "starts: at most %s\n", term.Visible(rate))
	}
}
