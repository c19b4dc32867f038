package main

import (
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	runtimecatalog "sigs.k8s.io/cluster-api/api/runtime/catalog"
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"
)

// schema is a JSON object of an OpenAPI document.
type schema = map[string]any

// openapi prints the requests and answers of the hooks as the Go types of Cluster API have them.
func openapi() error {
	catalog := runtimecatalog.New()
	if err := runtimehooksv1.AddToCatalog(catalog); err != nil {
		return err
	}
	paths, types := schema{}, schema{}
	for hook := range catalog.AllKnownHooks() {
		request, err := catalog.NewRequest(hook)
		if err != nil {
			return err
		}
		response, err := catalog.NewResponse(hook)
		if err != nil {
			return err
		}
		content := func(message runtime.Object) schema {
			return schema{"content": schema{"application/json": schema{"schema": describe(reflect.TypeOf(message), types)}}}
		}
		post := schema{"requestBody": content(request), "responses": schema{"200": content(response)}}
		paths[runtimecatalog.GVHToPath(hook, "")] = schema{"post": post}
	}
	return json.NewEncoder(os.Stdout).Encode(schema{"paths": paths, "components": schema{"schemas": types}})
}

// describe gives the schema of a type; a struct is described among the types, so that it may contain itself.
func describe(of reflect.Type, types schema) schema {
	switch of {
	case reflect.TypeFor[metav1.Time]():
		return schema{"type": "string"}
	case reflect.TypeFor[apiextensionsv1.JSON](), reflect.TypeFor[runtime.RawExtension]():
		return schema{}
	}
	switch of.Kind() {
	case reflect.Pointer:
		return describe(of.Elem(), types)
	case reflect.Bool:
		return schema{"type": "boolean"}
	case reflect.String:
		return schema{"type": "string"}
	case reflect.Int, reflect.Int32, reflect.Int64:
		return schema{"type": "integer"}
	case reflect.Float64:
		return schema{"type": "number"}
	case reflect.Map:
		return schema{"type": "object"}
	case reflect.Slice:
		if of.Elem().Kind() == reflect.Uint8 {
			return schema{"type": "string"}
		}
		return schema{"type": "array", "items": describe(of.Elem(), types)}
	case reflect.Struct:
		name := strings.ReplaceAll(of.PkgPath(), "/", ".") + "." + of.Name()
		if _, known := types[name]; !known {
			described := schema{"type": "object", "properties": schema{}, "required": []string{}}
			types[name] = described
			members(of, described, types)
		}
		return schema{"$ref": "#/components/schemas/" + name}
	default:
		panic(fmt.Sprintf("no schema for %v", of))
	}
}

// members adds the fields of a struct, and those of structs that it embeds. A field that JSON never omits is required.
func members(of reflect.Type, to schema, types schema) {
	for i := range of.NumField() {
		field := of.Field(i)
		name, options, _ := strings.Cut(field.Tag.Get("json"), ",")
		switch {
		case field.Anonymous && name == "":
			members(field.Type, to, types)
		case field.IsExported() && name != "" && name != "-":
			to["properties"].(schema)[name] = describe(field.Type, types)
			if !strings.Contains(options, "omitempty") {
				to["required"] = append(to["required"].([]string), name)
			}
		}
	}
}
