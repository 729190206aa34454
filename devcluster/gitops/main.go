// Judges objects as GitOps tools do: by kstatus, as Flux, and by a health check in Lua, as Argo CD.
// It reads {"check": LUA, "objects": {NAME: OBJECT}} and answers {NAME: {"kstatus", "argo"}}.
package main

import (
	"encoding/json"
	"fmt"
	"log"
	"os"

	lua "github.com/yuin/gopher-lua"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	apijson "k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/cli-utils/pkg/kstatus/status"
)

type question struct {
	Check   string                     `json:"check"`
	Objects map[string]json.RawMessage `json:"objects"`
}

type verdict struct {
	Status  string `json:"status"`
	Message string `json:"message"`
}

type answer struct {
	Kstatus verdict `json:"kstatus"`
	Argo    verdict `json:"argo"`
}

func main() {
	var asked question
	if err := json.NewDecoder(os.Stdin).Decode(&asked); err != nil {
		log.Fatal(err)
	}
	answers := map[string]answer{}
	for name, raw := range asked.Objects {
		// With whole numbers as such, as clients read them.
		var object map[string]any
		if err := apijson.Unmarshal(raw, &object); err != nil {
			log.Fatalf("%s: %v", name, err)
		}
		byKstatus, err := judgeByKstatus(object)
		if err != nil {
			log.Fatalf("%s: kstatus: %v", name, err)
		}
		byArgo, err := judgeByLua(asked.Check, object)
		if err != nil {
			log.Fatalf("%s: Lua: %v", name, err)
		}
		answers[name] = answer{byKstatus, byArgo}
	}
	if err := json.NewEncoder(os.Stdout).Encode(answers); err != nil {
		log.Fatal(err)
	}
}

func judgeByKstatus(object map[string]any) (verdict, error) {
	result, err := status.Compute(&unstructured.Unstructured{Object: object})
	if err != nil {
		return verdict{}, err
	}
	return verdict{string(result.Status), result.Message}, nil
}

// As Argo CD does it: the object is the global `obj`, and the script returns a table. It opens few
// libraries there; none but the basic one is open here.
func judgeByLua(check string, object map[string]any) (verdict, error) {
	state := lua.NewState(lua.Options{SkipOpenLibs: true})
	defer state.Close()
	state.Push(state.NewFunction(lua.OpenBase))
	state.Push(lua.LString(lua.BaseLibName))
	state.Call(1, 0)
	state.SetGlobal("obj", toLua(state, object))
	if err := state.DoString(check); err != nil {
		return verdict{}, err
	}
	table, isTable := state.Get(-1).(*lua.LTable)
	if !isTable {
		return verdict{}, fmt.Errorf("returns no table")
	}
	return verdict{table.RawGetString("status").String(), table.RawGetString("message").String()}, nil
}

func toLua(state *lua.LState, value any) lua.LValue {
	switch value := value.(type) {
	case map[string]any:
		table := state.NewTable()
		for key, each := range value {
			table.RawSetString(key, toLua(state, each))
		}
		return table
	case []any:
		table := state.NewTable()
		for _, each := range value {
			table.Append(toLua(state, each))
		}
		return table
	case string:
		return lua.LString(value)
	case bool:
		return lua.LBool(value)
	case int64:
		return lua.LNumber(value)
	case float64:
		return lua.LNumber(value)
	default:
		return lua.LNil
	}
}
