package workflow

import _ "embed"

// schema is made from the types and their comments by TestTheSchemaIsThatOfTheTypes.
//
//go:embed schema.json
var schema string

// Schema returns the JSON Schema (draft 7) of a workflow file.
func Schema() string { return schema }
