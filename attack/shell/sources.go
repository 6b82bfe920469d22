//go:build unix

package main

import (
	"encoding/json"
	"net/url"
	"strings"
)

// sources are all the ways in which data gets into a script. The workflow around it (see workflowOf) gives them all the same value.
var sources = []*source{
	{name: "item", text: "${item.v}"},
	{name: "item", text: "${item.v}"},
	{name: "nested field", text: "${item.o.w}"},
	{name: "element", text: "${item.l[0]}"},
	{name: "default", text: "${item.v:-none}"},
	{name: "list", text: "${item.l[*]}"},
	{name: "words", text: "${item.v|words}"},
	{name: "json filter", text: "${item.v|json}", literal: asJSON},
	{name: "url filter", text: "${item.v|url}", literal: url.QueryEscape, payloads: []string{nameOfData}},
	{name: "basename filter", text: "${item.v|basename}"},
	{name: "int filter", text: "${item.v|int}", literal: func(string) string { return "1" }, constant: true},
	{name: "item id", text: "${item_id}"},
	{name: "$item_id", text: "$item_id", variable: "item_id"},
	{name: "index", text: "${item_index}", literal: func(string) string { return "0" }, constant: true},
	{name: "capture", text: "${cap}"},
	{name: "capture field", text: "${cap.output}"},
	{name: "$capture", text: "$cap", variable: "cap"},
	{name: "$capture", text: "$cap", variable: "cap"},
	{name: "$capture of a step", text: "$out", variable: "out"},
	{name: "capture of a step", text: "${out}"},
	{name: "output", text: "${shell.output}"},
	{name: "output by id", text: "${before.output}"},
	{name: "item.output", text: "${item.output}"},
	{name: "parameter", text: "${par}"},
	{name: "$parameter", text: "$par", variable: "par"},
	{name: "step env", text: "${SENV}"},
	{name: "$step env", text: "$SENV", variable: "SENV"},
	{name: "env root", text: "${env.SENV}"},
	{name: "$workflow env", text: "$WENV", variable: "WENV"},
	{name: "$constant env", text: "$CENV", variable: "CENV", constant: true},
	{name: "$PRODIGY_ITEM", text: "$PRODIGY_ITEM", variable: "PRODIGY_ITEM"},
	{name: "$PRODIGY_ITEM_ID", text: "$PRODIGY_ITEM_ID", variable: "PRODIGY_ITEM_ID"},
	{name: "PRODIGY_ITEM_FILE", text: `$(cat "$PRODIGY_ITEM_FILE")`},
	{name: "step env by command", text: "${MENV}", env: byCommand},
	{name: "$step env by command", text: "$MENV", variable: "MENV", env: byCommand},
	{name: "element of foreach", text: "${part}", at: inForeach},
	{name: "$element of foreach", text: "$part", variable: "part", at: inForeach},
	{name: "item in foreach", text: "${item.v}", at: inForeach},
	{name: "message of the error", text: "${error.message}", at: inHandler},
	{name: "output in a handler", text: "${shell.output}", at: inHandler},
	{name: "results", text: "${map.results}", at: inReduce, literal: func(v string) string { return "[" + resultOf(v) + "]" }},
	{name: "field of the results", text: "${map.results[0].output}", at: inReduce},
	{name: "results file", text: `$(cat "` + resultsFile + `")`, at: inReduce},
	{name: "argument", text: "${ARG}", at: perArgument},
	{name: "$argument", text: "$ARG", variable: "ARG", at: perArgument},
	{name: "item of an argument", text: "${item}", at: perArgument},
}

// resultsFile is a placeholder within the text of a source, which the reference form has a variable for.
const resultsFile = "${map.results_file}"

// position is where in a workflow a script stands.
type position uint8

const (
	inAgent position = iota
	inForeach
	inHandler
	inReduce
	perArgument // of a workflow that runs once for each value of the command line
)

// byCommand is a variable of the step whose value a command prints.
var byCommand = map[string]string{"command": `printf %s "${item.v}"`}

// resultOf returns a row of the results file.
func resultOf(payload string) string {
	return strings.ReplaceAll(`{"item_id":V,"index":0,"status":"success","output":V,"exit_code":0}`, "V", asJSON(payload))
}

func asJSON(value string) string {
	text, err := json.Marshal(value)
	if err != nil {
		panic("BUG: a string has no JSON: " + err.Error())
	}
	return string(text)
}

// Values that show that they were run: each of them makes the program mark run somewhere. The common ones are tried with every script.
// As arithmetic and as text of code the first does, as a command the second.
var commonPayloads = []string{"a[$(mark)]", "mark"}

const (
	// endsQuote ends single quotes. It has no blanks, which words without quotes would be split at.
	endsQuote = "x';mark;'"

	// nameOfData names a variable that holds data. With this payload it holds the first of the common ones.
	nameOfData = "PRODIGY_ITEM_ID"
)

// valueOf returns what the source stands for.
func (s *source) valueOf(payload string) string {
	if s.literal == nil {
		return payload
	}
	return s.literal(payload)
}

// documentOf returns an item all of whose values are the payload.
func documentOf(payload string) []byte {
	text := asJSON(payload)
	return []byte(strings.ReplaceAll(`{V:1,"v":V,"o":{"w":V},"l":[V]}`, "V", text))
}
