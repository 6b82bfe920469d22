package workflow

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"prodigy/internal/check"
	"prodigy/internal/errorpolicy"
	"prodigy/internal/limit"
	"prodigy/internal/outputs"
	"prodigy/internal/retry"
)

// node is a piece of JSON Schema.
type node = map[string]any

// form is how a value can be written.
type form struct {
	schema node
	words  string   // for people
	enum   []string // the words it can be, if it is one of a few
}

const (
	unitPattern     = `(ns|us|ms|s|min|m|h|d)`
	spanPattern     = `^([0-9]+` + unitPattern + `)+$`
	timeoutPattern  = `^([0-9]+` + unitPattern + `)*[0-9]*[1-9][0-9]*` + unitPattern + `([0-9]+` + unitPattern + `)*$`
	namePattern     = `^[A-Za-z_][A-Za-z0-9_]*$`
	labelPattern    = `^[A-Za-z_][A-Za-z0-9_-]*$`
	exitCodePattern = `^([0-9]|[1-9][0-9]|1[0-9][0-9]|2[0-4][0-9]|25[0-5])$`
	variablePattern = `^\$([A-Za-z_][A-Za-z0-9_]*|\{[A-Za-z_][A-Za-z0-9_]*\})$`
)

func scalars() []string { return []string{"string", "number", "boolean"} }

func text() form   { return form{schema: node{"type": scalars()}, words: "text"} }
func filled() form { return form{schema: node{"type": scalars(), "pattern": `\S`}, words: "text"} }
func truth() form  { return form{schema: node{"type": "boolean"}, words: "true or false"} }
func span() form {
	return form{schema: node{"type": "string", "pattern": spanPattern}, words: "duration"}
}

func atLeast(least int) form {
	return form{schema: node{"type": "integer", "minimum": least}, words: "whole number from " + strconv.Itoa(least)}
}

func timeout() form {
	return either("duration or seconds", form{schema: node{"type": "string", "pattern": timeoutPattern}}, atLeast(1))
}

func pattern(p, words string) form {
	return form{schema: node{"type": "string", "pattern": p}, words: words}
}

// number is one within bounds, which the words tell.
func number(words string, bounds node) form {
	schema := node{"type": "number"}
	maps.Copy(schema, bounds)
	return form{schema: schema, words: words}
}

// ownName is a name that step texts can use, and is none of prodigy's own.
func ownName(p string) form {
	f := pattern(p, "name")
	f.schema["not"] = node{"enum": BuiltinNames()}
	return f
}

func oneWord[T ~string](words ...T) form {
	all := check.Words(words...)
	return form{schema: node{"enum": all}, words: strings.Join(code(all), ", "), enum: all}
}

// inAnyCase is one of a few words, with or without capitals, dashes and underscores.
func inAnyCase[T ~string](words ...T) form {
	var spellings []string
	for _, w := range words {
		var b strings.Builder
		for _, c := range check.Fold(string(w)) {
			b.WriteString("[-_ ]*[" + string(c) + strings.ToUpper(string(c)) + "]")
		}
		spellings = append(spellings, b.String()+"[-_ ]*")
	}
	return pattern("^("+strings.Join(spellings, "|")+")$", oneWord(words...).words)
}

// commandPattern is that of the names of commands in command_timeouts.
func commandPattern() string { return "^(" + strings.Join(Kinds(), "|") + ")(_(0|[1-9][0-9]*))?$" }

// code marks words as code.
func code(words []string) []string {
	all := make([]string, len(words))
	for i, w := range words {
		all[i] = "`" + w + "`"
	}
	return all
}

func reference(name, words string) form {
	return form{schema: node{"$ref": "#/definitions/" + name}, words: "[" + words + "](#" + words + ")"}
}

func listOf(f form, words string) form {
	return form{schema: node{"type": "array", "items": f.schema}, words: words}
}

// mapping is a mapping with these keys and no others. The required ones must be there.
func mapping(words string, keys map[string]form, required ...string) form {
	properties := node{}
	for name, f := range keys {
		properties[name] = f.schema
	}
	schema := node{"type": "object", "properties": properties, "additionalProperties": false}
	if len(required) > 0 {
		schema["required"] = required
	}
	return form{schema: schema, words: words}
}

// named is a mapping from names to values.
func named(p string, value form, words string) form {
	return form{schema: node{"type": "object", "propertyNames": node{"pattern": p}, "additionalProperties": value.schema}, words: words}
}

func either(words string, forms ...form) form {
	var all []node
	var enum []string
	for _, f := range forms {
		all = append(all, f.schema)
		enum = append(enum, f.enum...)
	}
	return form{schema: node{"anyOf": all}, words: words, enum: enum}
}

// form returns how a value of type t is written under a key with these tags. A type of the reader's own has a line in
// special.
func (l *language) form(t reflect.Type, key string, tag reflect.StructTag) form {
	if of := tag.Get("list"); of != "" && t.Kind() == reflect.Slice {
		return listOf(l.form(t.Elem(), key, tag), "list of "+of)
	}
	if f, ok := l.special(t); ok {
		return f
	}
	words := strings.Fields(tag.Get("words"))
	isEnum := t.Kind() == reflect.String && len(words) > 0
	switch kind := tag.Get("text"); {
	case t.Kind() == reflect.Pointer:
		return l.form(t.Elem(), key, tag)
	case t == reflect.TypeFor[time.Duration]() && tag.Get("unit") == "seconds":
		return timeout()
	case t == reflect.TypeFor[time.Duration]():
		return span()
	case isEnum && tag.Get("case") == "any":
		return inAnyCase(words...)
	case isEnum:
		return oneWord(words...)
	case t == reflect.TypeFor[Text]() && kind == "any":
		return text()
	case t == reflect.TypeFor[Text](), t.Kind() == reflect.String && kind == "filled":
		return filled()
	case t.Kind() == reflect.String && kind == "constant":
		return constantForm()
	case t.Kind() == reflect.String && kind == "revision":
		return revision()
	}
	switch t.Kind() {
	case reflect.Bool:
		return truth()
	case reflect.Int:
		return bounded(t, form{schema: node{"type": "integer"}, words: "whole number"}, tag)
	case reflect.Float64:
		return bounded(t, number("number", nil), tag)
	case reflect.String:
		return text()
	case reflect.Slice:
		element := l.form(t.Elem(), key, tag)
		return listOf(element, "list of "+element.words)
	case reflect.Struct:
		return l.block(t, key)
	default:
		l.t.Errorf("how is a %s written (key %s)? Give it a line in language.special", t, key)
		return form{schema: node{}}
	}
}

// bounded returns f with the bounds that the tags set.
func bounded(t reflect.Type, f form, tag reflect.StructTag) form {
	bound := func(key, text string) {
		var n any
		if err := json.Unmarshal([]byte(text), &n); err != nil {
			panic(err)
		}
		f.schema[key] = n
	}
	least, most, both := strings.Cut(tag.Get("range"), " ")
	switch {
	case both && t.Kind() == reflect.Int:
		f.words += " from " + least
	case both:
		f.words += " from " + least + " to " + most
	case tag.Get("above") != "":
		f.words += " above " + tag.Get("above")
		bound("exclusiveMinimum", tag.Get("above"))
	case tag.Get("least") != "":
		f.words += " from " + tag.Get("least")
		bound("minimum", tag.Get("least"))
	}
	if both {
		bound("minimum", least)
		bound("maximum", most)
	}
	return f
}

// revision is the name of a commit or a branch.
func revision() form {
	f := pattern(`^[^-\s]\S*$`, "text")
	f.schema["type"], f.schema["minimum"] = scalars(), 0 // a short hash may be all digits
	return f
}

// special returns the form of a type that is written in a way of its own.
func (l *language) special(t reflect.Type) (f form, ok bool) {
	switch t {
	case reflect.TypeFor[[]Step]():
		return l.steps(), true
	case reflect.TypeFor[*Phase]():
		return l.phase(), true
	case reflect.TypeFor[map[string][]Step]():
		return l.handlers(), true
	case reflect.TypeFor[ExitSteps]():
		return named(exitCodePattern, l.following(), "exit codes from 0 to 255, each with a [step](#step), a list of steps or `{commands: […]}`"), true
	case reflect.TypeFor[Interpreter]():
		return l.interpreter(), true
	case reflect.TypeFor[[]EnvVar]():
		return l.env(), true
	case reflect.TypeFor[*Validate]():
		return l.validate(), true
	case reflect.TypeFor[*Agent]():
		return either("prompt, or [with more](#agent)", filled(), l.block(reflect.TypeFor[Agent](), "agent")), true
	case reflect.TypeFor[*AgentPresets]():
		preset := form{schema: node{"type": "object", "properties": presetKeys(), "additionalProperties": false}}
		return named(labelPattern, preset, "names, each with a preset (see agents.md)"), true
	case reflect.TypeFor[*OnIncomplete]():
		return l.onIncomplete(), true
	case reflect.TypeFor[Elements]():
		return either("list, command, or placeholder of a list", filled(), form{schema: node{"type": "array"}}), true
	case reflect.TypeFor[[]Receiver]():
		receiver := l.block(reflect.TypeFor[Receiver](), "notify")
		return either("[receiver](#notify), or list of them", receiver, listOf(receiver, "")), true
	case reflect.TypeFor[[]Moment]():
		one := oneWord(Moments()...)
		list := listOf(one, "")
		list.schema["minItems"] = 1
		return either("list of words, or one word", one, list), true
	case reflect.TypeFor[SecondsOrVar]():
		return either("duration or seconds, or `$NAME` of an environment variable", timeout(), pattern(variablePattern, "")), true
	case reflect.TypeFor[limit.Windows]():
		one := pattern(`^ *([01][0-9]|2[0-3]):[0-5][0-9]-(([01][0-9]|2[0-3]):[0-5][0-9]|24:00)( +[A-Za-z0-9_+/-]+)? *$`, "")
		list := listOf(one, "")
		list.schema["minItems"] = 1
		return either("list of times, or one time, each perhaps with a zone", one, list), true
	case reflect.TypeFor[*limit.Amount]():
		return pattern(`^[0-9.]+ *(%|[kMGT]B|[KMGT]iB)$`, "size or share"), true
	case reflect.TypeFor[Rate](), reflect.TypeFor[*Rate]():
		return either("starts in a time, or [mapping](#rate)", rateForm(), l.block(reflect.TypeFor[Rate](), "rate")), true
	case reflect.TypeFor[*retry.Ratio]():
		return either("number above 0, or [mapping](#retry_ratio)", number("", node{"exclusiveMinimum": 0, "maximum": 100}), l.block(reflect.TypeFor[retry.Ratio](), "retry_ratio")), true
	case reflect.TypeFor[*Ramp]():
		return either("list of numbers, or [mapping](#ramp)", rampForm(), l.block(reflect.TypeFor[Ramp](), "ramp")), true
	case reflect.TypeFor[*limit.StragglerConfig]():
		return l.block(reflect.TypeFor[limit.StragglerConfig](), "straggler"), true
	case reflect.TypeFor[limit.StragglerAfter]():
		return either("multiple of a percentile as in `3×p95`, or duration or seconds", pattern(`^ *[0-9.]+ *[×xX*] *[pP][5-9][0-9] *$`, ""), timeout()), true
	case reflect.TypeFor[limit.Rate]():
		return rateForm(), true
	case reflect.TypeFor[*ReduceWhen]():
		some := l.block(reflect.TypeFor[ReduceWhen](), "reduce_when")
		some.schema = node{"allOf": []node{some.schema, {"minProperties": 1}}}
		return some, true
	case reflect.TypeFor[*Bound]():
		return pattern(`^ *([<>]=?) *[0-9.]+([eE][-+]?[0-9]+)? *%? *$`, "comparison, as in `>= 0.95`"), true
	case reflect.TypeFor[*ParkAfter]():
		return either("duration or seconds, also 0, or `never`", span(), atLeast(0), oneWord("never")), true
	case reflect.TypeFor[[]Text]():
		return either("list of texts, or one text", filled(), listOf(filled(), "")), true
	case reflect.TypeFor[[]Profile]():
		return l.profiles(), true
	case reflect.TypeFor[[]Secret]():
		return l.secrets(), true
	case reflect.TypeFor[[]Parameter]():
		return l.parameters(), true
	case reflect.TypeFor[json.RawMessage]():
		return form{schema: node{}, words: "any value"}, true
	case reflect.TypeFor[IntOrVar]():
		return l.intOrVar(), true
	case reflect.TypeFor[Input]():
		return l.input(), true
	case reflect.TypeFor[Workspace]():
		words := oneWord(SharedWorkspace, GitWorkspace)
		return either(words.words+", or [mapping](#workspace)", words, l.block(reflect.TypeFor[Workspace](), "workspace")), true
	case reflect.TypeFor[[]string]():
		return either("list of texts, or one text", filled(), listOf(filled(), "")), true
	case reflect.TypeFor[*OnFailure]():
		return l.onFailure(), true
	case reflect.TypeFor[outputs.Size]():
		return pattern("^[1-9][0-9]*(KiB|MiB|GiB)$", "size"), true
	case reflect.TypeFor[limit.USD]():
		return number("US dollars", node{"minimum": 0.000001, "maximum": 1_000_000}), true
	case reflect.TypeFor[limit.Count]():
		return either("number of tokens, also as `500k` or `20M`", pattern("^[1-9][0-9]{0,11}[kM]?$", ""), form{schema: node{"type": "integer", "minimum": 1, "maximum": 999_999_999_999}}), true
	case reflect.TypeFor[errorpolicy.ItemAction]():
		return l.itemAction(), true
	case reflect.TypeFor[errorpolicy.Collection]():
		return l.collection(), true
	case reflect.TypeFor[retry.Jitter]():
		return l.jitter(), true
	case reflect.TypeFor[retry.Backoff]():
		return l.backoff(), true
	case reflect.TypeFor[*retry.After]():
		return either("true or false, or [mapping](#retry_after)", truth(), l.block(reflect.TypeFor[retry.After](), "retry_after")), true
	case reflect.TypeFor[[]retry.Matcher]():
		return l.matchers(), true
	case reflect.TypeFor[retry.FailureAction]():
		return l.failureAction(), true
	}
	return form{}, false
}

// specialKey returns the form of a key, by block and name, that takes less than its type, or is written in
// another way than it.
func (l *language) specialKey(name string) (f form, ok bool) {
	switch name {
	case "workflow.Map.agent_template":
		return l.agentTemplate(), true
	case "workflow.Timeouts.command_timeouts":
		return named(commandPattern(), timeout(), "kinds of steps, or kinds and positions as in `shell_2`, each with a duration or seconds"), true
	case "workflow.Timeouts.cleanup_grace_period_secs":
		return either("duration or seconds, also 0", span(), atLeast(0)), true
	case "workflow.Foreach.parallel":
		return either("whole number from 1, or `true` for 10", truth(), atLeast(1)), true
	case "workflow.Foreach.as":
		names := slices.DeleteFunc(BuiltinNames(), func(name string) bool { return name == "item" })
		element := pattern(namePattern, "name")
		element.schema["not"] = node{"enum": append(names, "index", "total")}
		return element, true
	case "workflow.WriteFile.mode":
		return either("octal, as in `\"0644\"`", pattern(`^[0-7]{3,}$`, ""), form{schema: node{"type": "integer", "minimum": 0o10, "maximum": 777}}), true
	case "workflow.Map.requires":
		label := form{schema: node{"type": scalars(), "minimum": 0, "pattern": `^[A-Za-z0-9][A-Za-z0-9._/:=+-]*$`}, words: "label"}
		return either("list of labels, or one label", label, listOf(label, "")), true
	case "retry.Ratio.ratio":
		return number("number above 0, at most 100", node{"exclusiveMinimum": 0, "maximum": 100}), true
	case "retry.Ratio.min":
		return number("whole number from 1 to 1000000", node{"type": "integer", "minimum": 1, "maximum": 1_000_000}), true
	case "workflow.Canary.success_rate", "workflow.Ramp.success_rate":
		return number("number above 0, at most 1", node{"exclusiveMinimum": 0, "maximum": 1}), true
	case "workflow.Ramp.steps":
		return rampForm(), true
	case "workflow.Concurrency.adapt":
		return form{schema: node{"const": true}, words: "`true`"}, true
	case "retry.Policy.attempts", "limit.BreakerConfig.failure_threshold", "limit.BreakerConfig.success_threshold", "limit.BreakerConfig.half_open_requests":
		return atLeast(1), true
	case "limit.QuotaPolicy.pause_at":
		return number("number above 0, at most 1", node{"exclusiveMinimum": 0, "maximum": 1}), true
	case "errorpolicy.Policy.failure_threshold", "retry.Policy.jitter_factor":
		return number("number from 0 to 1", node{"minimum": 0, "maximum": 1}), true
	case "retry.Backoff.delays":
		return listOf(span(), "list of duration"), true
	case "retry.Backoff.base", "retry.Backoff.multiplier":
		return number("number above 0", node{"exclusiveMinimum": 0}), true
	case "retry.Policy.max_delay", "retry.Policy.retry_budget", "workflow.callOptions.max_delay", "limit.BreakerConfig.timeout":
		return pattern(timeoutPattern, "duration"), true
	case "errorpolicy.Policy.retry_config":
		return l.itemRetry(), true
	case "retry.Policy.circuit_breaker":
		return l.stepBreaker(), true
	case "limit.BreakerConfig.per":
		return filled(), true
	case "workflow.callOptions.backoff":
		return oneWord(retry.Fixed, retry.Linear, retry.Exponential), true
	case "workflow.Receiver.webhook":
		return pattern(`^https?://.|\$`, "URL"), true
	case "workflow.Receiver.command":
		return filled(), true
	case "workflow.Step.on_success":
		return l.following(), true
	case "workflow.Step.env":
		return l.stepEnv(), true
	case "workflow.Step.id":
		return ownName(labelPattern), true
	case "workflow.Step.capture":
		return ownName(namePattern), true
	case "workflow.Input.file", "workflow.Input.glob":
		list := listOf(filled(), "")
		list.schema["minItems"] = 1
		return either("text, or list of texts", filled(), list), true
	case "workflow.Map.distinct":
		f := filled()
		f.words = "text or `true`"
		return f, true
	case "workflow.Input.stdin":
		return form{schema: node{"const": true}, words: "`true`"}, true
	case "workflow.Input.format":
		return oneWord(Formats()...), true
	case "workflow.Input.delimiter":
		return pattern("^[^\\x00\"\\r\\n\uFFFD]$", "a character"), true
	}
	return form{}, false
}

// rampForm is a list of rising numbers of agents.
func rampForm() form {
	f := listOf(atLeast(1), "list of rising numbers")
	f.schema["minItems"], f.schema["maxItems"] = 2, maxRampSteps
	return f
}

// rateForm is starts and a time, such as 40/s.
func rateForm() form {
	return pattern(`^ *[1-9][0-9]* */ *([0-9]+`+unitPattern+`|`+unitPattern+`)+ *$`, "starts and a time, as in `40/s`")
}

// constantForm is a text without placeholders.
func constantForm() form {
	return form{schema: node{"type": scalars(), "pattern": `\S`, "not": node{"type": "string", "pattern": `\$\{`}}, words: "text"}
}

// presetKeys are those of package ai, for completion in editors; ai checks them.
func presetKeys() node {
	keys := node{}
	for _, name := range PresetKeys() {
		keys[name] = node{}
	}
	return keys
}

// besides describes the keys of a block that are not fields of its type, because they are other words for such.
func (l *language) besides(t reflect.Type) []keyDoc {
	switch t {
	case reflect.TypeFor[Workflow]():
		defaults := keyDoc{name: "retry_defaults", meaning: "a retry_config that is merged under that of every step", form: l.block(reflect.TypeFor[retry.Policy](), "retry_config")}
		return append(l.policyKeys(rootPolicyKeys...), defaults)
	case reflect.TypeFor[Map]():
		policy := keyDoc{name: "error_policy", meaning: "the same as at the root", form: l.block(reflect.TypeFor[errorpolicy.Policy](), "error_policy")}
		return append(l.policyKeys("retry_config"), policy)
	case reflect.TypeFor[Timeouts]():
		return l.policyKeys("retry_config")
	case reflect.TypeFor[Step]():
		return []keyDoc{
			{name: "test", meaning: "the older way to write `shell` with `on_failure`", form: l.test()},
			{name: "fail_workflow", meaning: "the older way to write the opposite of `allow_failure`", form: truth()},
			{name: "with", meaning: "retries and timeout in short, instead of `retry_config`", form: l.callOptions()},
			{
				name: "capture_output", meaning: "another word for capture; `true` takes the name from `id`, and without one says only what is so anyway: the output is `${shell.output}`",
				form: either("name or `true`", truth(), ownName(namePattern)),
			},
		}
	}
	return nil
}

// policyKeys describes keys of an error_policy where they stand outside of it.
func (l *language) policyKeys(names ...string) []keyDoc {
	policy := reflect.TypeFor[errorpolicy.Policy]()
	l.block(policy, "error_policy")
	var keys []keyDoc
	for _, k := range l.fields(policy) {
		if slices.Contains(names, k.name) {
			k.meaning = "the same as in [error_policy](#error_policy)"
			keys = append(keys, k)
		}
	}
	return keys
}

func (l *language) steps() form {
	f := listOf(l.block(reflect.TypeFor[Step](), "step"), "list of [steps](#step)")
	f.schema["minItems"] = 1
	return f
}

func (l *language) phase() form {
	return either("list of [steps](#step), or [phase](#phase)", l.steps(), l.block(reflect.TypeFor[Phase](), "phase"))
}

func (l *language) agentTemplate() form {
	return either("list of [steps](#step)", l.steps(), mapping("", map[string]form{"commands": l.steps()}, "commands"))
}

func (l *language) handlers() form {
	return named(labelPattern, l.steps(), "names, each with a list of [steps](#step)")
}

func (l *language) env() form {
	return named(namePattern, l.envValue(), "names with texts, numbers, booleans or [mappings](#env-value)")
}

func (l *language) envValue() form {
	return either("", text(), l.envForm("value", "secret"), l.envForm("command", "cache", "secret"), l.envForm("condition", "when_true", "when_false"))
}

// envForm is one of the long forms of a variable, which has these keys.
func (l *language) envForm(names ...string) form {
	return l.part(reflect.TypeFor[envForm](), "env-value", names[0], func(name string) bool { return slices.Contains(names, name) })
}

// stepEnv has only what is decided anew for each try of the step.
func (l *language) stepEnv() form {
	value, command := mapping("", map[string]form{"value": text()}, "value"), mapping("", map[string]form{"command": filled()}, "command")
	return named(namePattern, either("", text(), value, command), "names with texts, numbers, booleans, or `{command: …}`")
}

func (l *language) profiles() form {
	f := named(namePattern, l.envValue(), "")
	f.schema["properties"] = node{"description": text().schema}
	return named(labelPattern, either("", f, form{schema: node{"type": "null"}}), "names, each with variables as in `env`, and perhaps a `description`")
}

func (l *language) secrets() form {
	variable := pattern(environmentName().String(), "")
	return named(namePattern, either("", variable, l.block(reflect.TypeFor[Secret](), "secret")),
		"names, each with the name of an environment variable, `{file: …}` or `{command: …}`")
}

func (l *language) parameters() form {
	f := named(namePattern, l.block(reflect.TypeFor[Parameter](), "parameter"), "names, each with a [parameter](#parameter)")
	f.schema["propertyNames"] = ownName(namePattern).schema
	return f
}

func (l *language) intOrVar() form {
	return either("whole number from 1, or `$NAME` of an environment variable", atLeast(1), pattern(variablePattern, ""))
}

func (l *language) input() form {
	block := l.block(reflect.TypeFor[Input](), "input")
	return either("file name, command, [mapping](#input), or list of items", filled(), block, form{schema: node{"type": "array"}})
}

func (l *language) itemAction() form {
	words := oneWord(errorpolicy.Actions()...)
	return either(words.words+", `custom:<handler>`", words, pattern(`^custom:.`, ""))
}

func (l *language) collection() form {
	words := oneWord(errorpolicy.Aggregate, errorpolicy.Immediate, errorpolicy.Batched)
	size := mapping("", map[string]form{"size": atLeast(1)}, "size")
	return either(words.words+", `batched:10`, `{batched: {size: 10}}`",
		words, pattern(`^batched:\+?0*[1-9][0-9]*$`, ""), mapping("", map[string]form{"batched": size}, "batched"))
}

func (l *language) jitter() form {
	words := oneWord("full", "equal", "decorrelated", "true", "false")
	return form{
		schema: node{"enum": []any{true, false, "full", "equal", "decorrelated", "true", "false"}},
		words:  "`true`, `false`, `full`, `equal`, `decorrelated`", enum: words.enum,
	}
}

// backoff is a strategy's name, {name: {parameters}}, or {type: name, parameters}.
func (l *language) backoff() form {
	byName := map[string]form{}
	forms := []form{oneWord(retry.Strategies()...)}
	for _, s := range retry.Strategies() {
		names, _ := retry.Parameters(s)
		parameters := l.part(reflect.TypeFor[retry.Backoff](), "backoff", string(s), func(name string) bool { return slices.Contains(names, name) })
		byName[string(s)] = either("", parameters, form{schema: node{"type": "null"}})
		typed := keyDoc{name: "type", meaning: "the strategy", form: oneWord(s)}
		in := func(name string) bool { return slices.Contains(names, name) }
		forms = append(forms, l.part(reflect.TypeFor[retry.Backoff](), "backoff", "typed-"+string(s), in, typed))
	}
	only := mapping("", byName)
	only.schema["minProperties"], only.schema["maxProperties"] = 1, 1
	return either(forms[0].words+", or [with parameters](#backoff)", append(forms, only)...)
}

func (l *language) matchers() form {
	names := oneWord(retry.MatcherNames()...) // which editors offer
	codes := either("", atLeast(1), form{schema: node{"type": "array", "items": atLeast(1).schema, "minItems": 1}})
	one := either(names.words+", `{pattern: regex}`, `{exit_code: [75]}`", names, inAnyCase(retry.MatcherNames()...),
		mapping("", map[string]form{"pattern": filled()}, "pattern"), mapping("", map[string]form{"exit_code": codes}, "exit_code"))
	return either("list of "+one.words, listOf(one, ""), one)
}

func (l *language) failureAction() form {
	command := mapping("", map[string]form{"command": filled()}, "command")
	words := oneWord(retry.Stop, retry.Continue)
	return either(words.words+", `{fallback: {command: …}}`", words, mapping("", map[string]form{"fallback": command}, "fallback"))
}

// onFailure is a failure action, steps, or a step whose mapping holds the keys of the handler as well.
func (l *language) onFailure() form {
	own := reflect.TypeFor[OnFailure]()
	l.block(own, "on_failure")
	all := func(string) bool { return true }
	commands := keyDoc{name: "commands", meaning: "the steps that handle the failure", form: l.steps()}
	return either("[step](#step), list of steps, or [with more](#on_failure); or "+l.failureAction().words,
		l.failureAction(), l.steps(), l.part(reflect.TypeFor[Step](), "step", "handling", all, l.fields(own)...), l.part(own, "on_failure", "commands", all, commands))
}

func (l *language) following() form {
	commands := mapping("", map[string]form{"commands": l.steps()}, "commands")
	return either("[step](#step), list of steps, or `{commands: […]}`", l.block(reflect.TypeFor[Step](), "step"), l.steps(), commands)
}

func (l *language) interpreter() form {
	var programs []string
	for _, row := range scriptFlags {
		programs = append(programs, strings.Fields(row)[1:]...)
	}
	slices.Sort(programs)
	known := pattern(`^([^$]*/)?(`+strings.Join(programs, "|")+`)[0-9.]*$`, "")
	word := node{"type": scalars(), "not": node{"pattern": `\$\{`}}
	first := node{"type": scalars(), "not": node{"pattern": `\$\{`}, "pattern": `\S`}
	argv := form{schema: node{"type": "array", "minItems": 1, "items": []any{first}, "additionalItems": word}}
	return either("program ("+strings.Join(code(programs), ", ")+"), or list of arguments", known, argv)
}

// handling is steps that are there for when something is amiss, with the keys of such a block.
func (l *language) handling(own reflect.Type, title, suffix string) form {
	l.block(own, title)
	all := func(string) bool { return true }
	commands := keyDoc{name: "commands", meaning: "the steps", form: l.steps()}
	return either("[step](#step), list of steps, or [with more](#"+title+")",
		l.steps(), l.part(reflect.TypeFor[Step](), "step", suffix, all, l.fields(own)...), l.part(own, title, "commands", all, commands))
}

func (l *language) onIncomplete() form {
	return l.handling(reflect.TypeFor[OnIncomplete](), "on_incomplete", "mending")
}

// validate is a list of steps, a block with commands or only a result_file, or a step whose mapping holds the
// keys of the validation as well.
func (l *language) validate() form {
	own := reflect.TypeFor[Validate]()
	block := l.block(own, "validate")
	all := func(string) bool { return true }
	more := slices.DeleteFunc(l.fields(own), func(k keyDoc) bool { return k.name == "commands" || k.name == "timeout" })
	reading := l.part(own, "validate", "reading", func(name string) bool { return name != "commands" })
	reading.schema = node{"allOf": []node{reading.schema, {"required": []string{"result_file"}}}}
	return either("[step](#step), list of steps, or [with more](#validate)",
		l.steps(), l.part(reflect.TypeFor[Step](), "step", "validating", all, more...), block, reading)
}

func (l *language) test() form {
	handled := l.handling(reflect.TypeFor[OnFailure](), "on_failure", "handling")
	return either("command, or `{command: …, on_failure: …}`", filled(), mapping("", map[string]form{"command": filled(), "on_failure": handled}, "command"))
}

func (l *language) callOptions() form {
	return either("[with](#with), or the same as text", pattern(`^\s*[a-z_]+\s*:.`, ""), l.block(reflect.TypeFor[callOptions](), "with"))
}

// itemRetry has no keys that only steps have.
func (l *language) itemRetry() form {
	not := []string{"on_failure", "circuit_breaker"}
	f := l.part(reflect.TypeFor[retry.Policy](), "retry_config", "of-items", func(name string) bool { return !slices.Contains(not, name) })
	f.words = "[retry_config](#retry_config) without `on_failure` and `circuit_breaker`"
	return f
}

// stepBreaker has no keys that only error policies have.
func (l *language) stepBreaker() form {
	f := l.part(reflect.TypeFor[limit.BreakerConfig](), "circuit_breaker", "of-step", func(name string) bool { return name != "on_open" && name != "per" })
	f.words = "[circuit_breaker](#circuit_breaker) without `on_open` and `per`"
	return f
}

// Every constant of an enum can be written, and no other word.
func TestTheWordsOfAnEnumAreItsConstants(t *testing.T) {
	constants, tagged := map[string][]string{}, map[string][]string{}
	files, err := filepath.Glob("../*/*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		here := filepath.Base(filepath.Dir(name)) + "."
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.ValueSpec:
				of, ok := n.Type.(*ast.Ident)
				if !ok || len(n.Values) != 1 {
					break
				}
				if value, ok := n.Values[0].(*ast.BasicLit); ok {
					constants[here+of.Name] = append(constants[here+of.Name], strings.Trim(value.Value, `"`))
				}
			case *ast.Field:
				of := n.Type
				if list, ok := of.(*ast.ArrayType); ok {
					of = list.Elt
				}
				var enum string
				switch of := of.(type) {
				case *ast.Ident:
					enum = here + of.Name
				case *ast.SelectorExpr:
					enum = of.X.(*ast.Ident).Name + "." + of.Sel.Name
				}
				if n.Tag != nil && enum != "retry.Strategy" { // of which the block with takes some
					tag := reflect.StructTag(strings.Trim(n.Tag.Value, "`"))
					if words := strings.Fields(tag.Get("words")); len(words) > 0 {
						tagged[enum] = words
					}
				}
			}
			return true
		})
	}
	if len(tagged) < 10 {
		t.Errorf("found %d enums", len(tagged))
	}
	for name, words := range tagged {
		slices.Sort(words)
		want := slices.Sorted(slices.Values(constants[name]))
		if !slices.Equal(words, want) {
			t.Errorf("the tag of %s has the words %q, and its constants are %q", name, words, want)
		}
	}
}
