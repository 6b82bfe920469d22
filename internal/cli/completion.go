package cli

import (
	"os"
	"strings"

	"github.com/spf13/cobra"

	"prodigy/internal/check"
	"prodigy/internal/dlq"
	"prodigy/internal/events"
	"prodigy/internal/items"
	"prodigy/internal/term"
	"prodigy/internal/workflow"
)

// noMore says that the completions are complete words, and not file names.
const noMore = cobra.ShellCompDirectiveNoFileComp

// offeredMost is the maximum number of items offered.
const offeredMost = 200

// completeJob completes the first argument to a job id.
func completeJob(cmd *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, noMore
	}
	return completeJobs(cmd, args, word)
}

// completeJobs completes to a job id, newest first, with the name of its workflow, or to latest.
func completeJobs(cmd *cobra.Command, _ []string, word string) ([]string, cobra.ShellCompDirective) {
	all, _ := cmd.Flags().GetBool("all")
	home, err := homeOf(all || word != "") // who begins to type an id may mean any job
	if err != nil {
		return nil, noMore
	}
	list, err := home.List()
	if err != nil || len(list) == 0 {
		return nil, noMore
	}
	offered := []string{"latest"}
	for _, j := range list {
		if strings.HasPrefix(j.ID, word) {
			meta, _ := j.ReadMeta()
			one := cobra.CompletionWithDesc(j.ID, term.Visible(meta.Workflow))
			offered = append(offered, strings.TrimSuffix(one, "\t"))
		}
	}
	return beginning(word, offered), noMore | cobra.ShellCompDirectiveKeepOrder
}

// completeWorkflows completes to YAML files.
func completeWorkflows(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return []string{"yml", "yaml"}, cobra.ShellCompDirectiveFilterFileExt
}

// completeWhy completes a job, or an item of the latest one, then an item of the job.
func completeWhy(cmd *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
	switch len(args) {
	case 0:
		found, how := completeJobs(cmd, nil, word)
		ids, _ := completeItem(cmd, nil, word)
		return append(found, ids...), how | cobra.ShellCompDirectiveKeepOrder
	case 1:
		return completeItem(cmd, args, word)
	}
	return nil, noMore
}

// completeItem completes to an item of the job that the first argument names, or else the flags.
func completeItem(cmd *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
	job, err := findJob(jobOf(cmd, args))
	if err != nil {
		return nil, noMore
	}
	store, err := items.OpenStore(job.ItemsFile())
	if err != nil {
		return nil, noMore
	}
	defer check.Quietly(store.Close)
	ids, _ := store.Named(word, offeredMost)
	return beginning(word, ids), noMore
}

// completeLetter completes to dead letters of the job that the first argument names, or else the flags, and at first to
// a job, once something of it is typed.
func completeLetter(cmd *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 && !isJob(args[0], jobByFlags(cmd)) {
		args = nil
	}
	var offered []string
	if job, err := findJob(jobOf(cmd, args)); err == nil {
		ids, _ := dlq.IDs(job.DLQFile())
		offered = beginning(word, ids)
		offered = check.First(offered, offeredMost)
	}
	if len(args) == 0 && word != "" {
		found, _ := completeJobs(cmd, nil, word)
		offered = append(offered, found...)
	}
	return offered, noMore
}

// jobOf returns the job that the first argument names, or else the flags.
func jobOf(cmd *cobra.Command, args []string) jobName {
	if len(args) > 0 {
		return jobName{id: args[0]}
	}
	return jobByFlags(cmd)
}

// offering completes to the words that are offered, given the arguments so far.
func offering(words func(args []string) []string) cobra.CompletionFunc {
	return func(_ *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
		return beginning(word, words(args)), noMore
	}
}

// eventTypes returns the types of events.
func eventTypes([]string) []string { return check.Each(events.Types(), events.TypeOf) }

// profilesNamed returns the profiles of the workflow that the first argument names.
func profilesNamed(args []string) []string {
	return check.Each(workflowNamed(args).Profiles, func(p workflow.Profile) string { return p.Name })
}

// completeParam completes to the name of a parameter of the workflow that the first argument names.
func completeParam(_ *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
	names := check.Each(workflowNamed(args).Parameters, func(p workflow.Parameter) string { return p.Name + "=" })
	return beginning(word, names), noMore | cobra.ShellCompDirectiveNoSpace
}

// workflowNamed parses the workflow that the first argument names. It returns the zero Workflow if it cannot.
func workflowNamed(args []string) workflow.Workflow {
	if len(args) == 0 {
		return workflow.Workflow{}
	}
	source, err := os.ReadFile(args[0])
	if err != nil {
		return workflow.Workflow{}
	}
	w, err := workflow.Parse(args[0], source, workflow.ParseOptions{})
	if err != nil {
		return workflow.Workflow{}
	}
	return *w
}

// beginning returns the offered words that begin with word. Words with control characters are left out: a completion is
// one line, and a tab ends the word.
func beginning(word string, offered []string) []string {
	var list []string
	for _, o := range offered {
		id, _, _ := strings.Cut(o, "\t")
		if strings.HasPrefix(id, word) && term.Visible(id) == id {
			list = append(list, o)
		}
	}
	return list
}
