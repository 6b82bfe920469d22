package workflow

import "testing"

func TestATextIsReadAsTheTypeOfTheParameter(t *testing.T) {
	for _, c := range []struct {
		typ        ParameterType
		text, want string // want is empty where it does not fit
	}{
		{StringParameter, `a "b"`, `"a \"b\""`},
		{StringParameter, "1.10", `"1.10"`},
		{NumberParameter, "1.50", "1.50"},
		{NumberParameter, "1e3", "1e3"},
		{NumberParameter, "0x10", ""},
		{NumberParameter, "NaN", ""},
		{IntegerParameter, "12345678901234567890", "12345678901234567890"},
		{IntegerParameter, "1.0", ""},
		{IntegerParameter, "007", ""},
		{IntegerParameter, "", ""},
		{BooleanParameter, "true", "true"},
		{BooleanParameter, "yes", ""},
		{ArrayParameter, "[1, 2]", "[1,2]"},
		{ArrayParameter, "1,2", ""},
		{ObjectParameter, `{"a": null}`, `{"a":null}`},
		{ObjectParameter, "[]", ""},
	} {
		got, err := Parameter{Name: "p", Type: c.typ}.FromText(c.text)
		if string(got) != c.want || (err == nil) != (c.want != "") {
			t.Errorf("%s %q: got %s, %v, want %s", c.typ, c.text, got, err, c.want)
		}
	}
}

func TestAFileOfParametersKeepsTheSpellingOfJSON(t *testing.T) {
	params := []Parameter{{Name: "s", Type: StringParameter}, {Name: "n", Type: NumberParameter}}
	for file, want := range map[string]string{
		"s: 1.10\nn: 2.50":                  `"1.10" 2.50`,
		`{"s": "\ud83d\ude00\/", "n": 1e2}`: `"\ud83d\ude00\/" 1e2`,
		"{s: true, n: 3}":                   `"true" 3`,
		"# nothing":                         ` `,
		"s: [a]":                            `line 1: parameter s must be a string, got a list`,
		"s: a\nwhatever: 1":                 `line 2: unknown parameter "whatever" (want s or n)`,
		`{"n": "x"}`:                        `parameter n must be a number, got "x"`,
		"- a":                               `must be a mapping of names to values, got a list`,
	} {
		got, err := ParameterFile([]byte(file), params)
		told := string(got["s"]) + " " + string(got["n"])
		if err != nil {
			told = err.Error()
		}
		if told != want {
			t.Errorf("%s: got %s, want %s", file, told, want)
		}
	}
}
