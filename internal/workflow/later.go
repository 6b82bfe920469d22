package workflow

// later are the keys, by the block they stand in, that the language has but that are not built yet. They are refused,
// so that nobody relies on what would not happen.
var later = map[string][]string{
	"step":       laterInSteps,
	"on_failure": laterInSteps,
}

var laterInSteps = []string{
	"validate", "test",
}

// laterInstead are those of the later keys that are written instead of a key that is required.
var laterInstead = []string{"validate", "test"}
