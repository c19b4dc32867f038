// Command answers says what Cluster API's own functions make of objects.
//
//	answers convert    converts the objects on standard input, one JSON text per line, to the newer version of their kind
//	answers validate   validates the ExtensionConfigs on standard input, one JSON text per line
//	answers variables  validates the variables of the classes and Clusters on standard input, one pair as JSON text per line
//	answers fields     lists the fields of the newer versions that are left out when they are empty
//
// A converted line is {"object": …} or {"error": "…"}. A validated line is {"causes": […]} or {"error": "…"}. A pair is
// {"class": …, "cluster": …}, with "old" for an update; its line is {"causes": {"class": […], "cluster": […]}}, with an empty list for the Cluster of a class
// that is refused.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"reflect"
	"sort"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"
	"sigs.k8s.io/cluster-api/core/webhooks/admission"
	"sigs.k8s.io/cluster-api/core/webhooks/conversion"
	"sigs.k8s.io/cluster-api/feature"
)

func main() {
	if err := feature.MutableGates.Set("ClusterTopology=true,RuntimeSDK=true"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	run := map[string]func() error{
		"convert":   func() error { return eachLine("object", converted) },
		"validate":  func() error { return eachLine("causes", validated) },
		"variables": func() error { return eachLine("causes", checkedVariables) },
		"fields":    printFields,
	}[strings.Join(os.Args[1:], " ")]
	if run == nil {
		run = func() error { return errors.New("give convert, validate, variables or fields") }
	}
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func eachLine(name string, answerTo func([]byte) (any, error)) error {
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 16<<20)
	answers := bufio.NewWriter(os.Stdout)
	for lines.Scan() {
		var answer any
		if found, err := answerTo(lines.Bytes()); err != nil {
			answer = map[string]any{"error": err.Error()}
		} else {
			answer = map[string]any{name: found}
		}
		if err := json.NewEncoder(answers).Encode(answer); err != nil {
			return err
		}
	}
	if err := lines.Err(); err != nil {
		return err
	}
	return answers.Flush()
}

func converted(text []byte) (object any, err error) {
	var kind metav1.TypeMeta
	if err := json.Unmarshal(text, &kind); err != nil {
		return nil, err
	}
	// Webhooks of Cluster API answer a panic with an error.
	defer func() {
		if cause := recover(); cause != nil {
			err = fmt.Errorf("panic: %v", cause)
		}
	}()
	switch kind.Kind {
	case "Cluster":
		return convert(text, clusterv1.GroupVersion.String(), conversion.ConvertClusterV1Beta1ToHub)
	case "ClusterClass":
		return convert(text, clusterv1.GroupVersion.String(), conversion.ConvertClusterClassV1Beta1ToHub)
	case "ExtensionConfig":
		return convert(text, runtimev1.GroupVersion.String(), conversion.ConvertExtensionConfigV1Alpha1ToHub)
	}
	return nil, fmt.Errorf("no conversion of kind %q", kind.Kind)
}

// convert decodes an object of the older version, and writes it in the newer one as the API server would read it.
func convert[Old, New any](text []byte, version string, to func(context.Context, *Old, *New) error) (any, error) {
	var older Old
	if err := json.Unmarshal(text, &older); err != nil {
		return nil, err
	}
	var newer New
	if err := to(context.Background(), &older, &newer); err != nil {
		return nil, err
	}
	written, err := json.Marshal(newer)
	if err != nil {
		return nil, err
	}
	var object map[string]any
	if err := json.Unmarshal(written, &object); err != nil {
		return nil, err
	}
	var kind metav1.TypeMeta
	if err := json.Unmarshal(text, &kind); err != nil {
		return nil, err
	}
	object["apiVersion"], object["kind"] = version, kind.Kind
	return object, nil
}

// validated returns the causes of a denial.
func validated(text []byte) (any, error) {
	var config runtimev1.ExtensionConfig
	if err := json.Unmarshal(text, &config); err != nil {
		return nil, err
	}
	causes := []metav1.StatusCause{}
	_, err := (&admission.ExtensionConfig{}).ValidateCreate(context.Background(), &config)
	var status apierrors.APIStatus
	if errors.As(err, &status) && status.Status().Details != nil {
		causes = append(causes, status.Status().Details.Causes...)
	} else if err != nil {
		return nil, err
	}
	return causes, nil
}

// checkedVariables returns the causes of denials of a class and of a Cluster that uses it.
func checkedVariables(text []byte) (any, error) {
	var pair struct {
		Class        *clusterv1.ClusterClass
		Cluster, Old *clusterv1.Cluster
	}
	if err := json.Unmarshal(text, &pair); err != nil {
		return nil, err
	}
	ctx := context.Background()
	found := map[string][]metav1.StatusCause{"class": {}, "cluster": {}}
	_, err := (&admission.ClusterClass{}).ValidateCreate(ctx, pair.Class)
	var status apierrors.APIStatus
	if errors.As(err, &status) && status.Status().Details != nil {
		found["class"] = status.Status().Details.Causes
		return found, nil
	} else if err != nil {
		return nil, err
	}
	for _, variable := range pair.Class.Spec.Variables {
		pair.Class.Status.Variables = append(pair.Class.Status.Variables, clusterv1.ClusterClassStatusVariable{
			Name: variable.Name,
			Definitions: []clusterv1.ClusterClassStatusVariableDefinition{
				{From: clusterv1.VariableDefinitionFromInline, Required: variable.Required, Schema: variable.Schema},
			},
		})
	}
	for _, err := range (&admission.Cluster{}).DefaultAndValidateVariables(ctx, pair.Cluster, pair.Old, pair.Class) {
		cause := metav1.StatusCause{Type: metav1.CauseType(err.Type), Field: err.Field, Message: err.ErrorBody()}
		found["cluster"] = append(found["cluster"], cause)
	}
	return found, nil
}

func printFields() error {
	kinds := map[string]any{
		"Cluster":         clusterv1.Cluster{},
		"ClusterClass":    clusterv1.ClusterClass{},
		"ExtensionConfig": runtimev1.ExtensionConfig{},
	}
	var lines []string
	for name, kind := range kinds {
		walk := fields{kind: name}
		walk.collect(reflect.TypeOf(kind), "")
		lines = append(lines, walk.lines...)
	}
	sort.Strings(lines)
	_, err := fmt.Println(strings.Join(lines, "\n"))
	return err
}

// fields are those of a kind that are no pointers and are left out when they are empty, as lines with the kind, the path and the
// form of the field. Lists add [] to a path, and maps {}. A field whose type is that of an object around it has the path of that
// object instead of a form.
type fields struct {
	kind  string
	lines []string
	outer []object
}

type object struct {
	of   reflect.Type
	path string
}

func (walk *fields) collect(of reflect.Type, path string) {
	switch of.Kind() {
	case reflect.Pointer:
		walk.collect(of.Elem(), path)
	case reflect.Slice:
		walk.collect(of.Elem(), path+"[]")
	case reflect.Map:
		walk.collect(of.Elem(), path+"{}")
	case reflect.Struct:
		if marshals(of) {
			return
		}
		for _, outer := range walk.outer {
			if outer.of == of {
				walk.lines = append(walk.lines, fmt.Sprint(walk.kind, " ", path, " = ", outer.path))
				return
			}
		}
		walk.outer = append(walk.outer, object{of, path})
		for i := range of.NumField() {
			walk.field(of.Field(i), path)
		}
		walk.outer = walk.outer[:len(walk.outer)-1]
	}
}

func (walk *fields) field(field reflect.StructField, path string) {
	name, options, _ := strings.Cut(field.Tag.Get("json"), ",")
	if name == "" {
		walk.collect(field.Type, path)
		return
	}
	path = strings.TrimPrefix(path+"."+name, ".")
	// These are the API server's.
	if path == "apiVersion" || path == "kind" || path == "metadata" {
		return
	}
	if strings.Contains(options, "omit") && field.Type.Kind() != reflect.Pointer {
		walk.lines = append(walk.lines, fmt.Sprint(walk.kind, " ", path, " ", form(field.Type)))
	}
	walk.collect(field.Type, path)
}

// form is the JSON type of a Go type.
func form(of reflect.Type) string {
	switch of.Kind() {
	case reflect.String:
		return "string"
	case reflect.Bool:
		return "boolean"
	case reflect.Slice:
		// Bytes are a text in base64.
		if of.Elem().Kind() == reflect.Uint8 {
			return "string"
		}
		return "array"
	case reflect.Map:
		return "object"
	case reflect.Struct:
		if marshals(of) {
			return "any"
		}
		return "object"
	default:
		return "integer"
	}
}

// marshals tells whether a type writes its own JSON: its fields are not those of the text.
func marshals(of reflect.Type) bool {
	marshaler := reflect.TypeFor[json.Marshaler]()
	return of.Implements(marshaler) || reflect.PointerTo(of).Implements(marshaler)
}
