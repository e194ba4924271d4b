/** The test that `keelson test init` writes. */
export const starterTest = `# A test of an operator. Check it with \`keelson test validate\`, run it with \`keelson test run\`.
# \`keelson test schema > .test-schema.json\` writes a schema for the completion and checks of editors:
# yaml-language-server: $schema=.test-schema.json
apiVersion: infra.testplane.io/v1alpha1
kind: IntegrationTest
metadata:
  name: first-test
spec:
  # Steps run one after another. Each changes something, then waits until its checks hold.
  steps:
    - name: create
      apply:
        manifests:
          - apiVersion: v1
            kind: ConfigMap
            metadata: { name: first-test }
            data: { colour: red }
      expectations:
        # A partial object: fields that it does not name are ignored.
        allOf: [{ matches: { data: { colour: red } } }]
      # Values for later steps, as CEL.
      outputs: [{ name: colour, cel: object.data.colour }]
      # Runs at the end of the test, even if it fails.
      cleanup:
        - name: remove
          delete: { object: { apiVersion: v1, kind: ConfigMap, name: first-test } }

    - name: change
      timeoutSeconds: 60
      patch:
        object: { apiVersion: v1, kind: ConfigMap, name: first-test }
        body: { data: { colour: "dark \${{ outputs.colour }}" } }
      expectations:
        allOf: [{ cel: object.data.colour == 'dark red' }]

    # The API server must reject this.
    - name: invalid objects are rejected
      apply:
        manifests:
          - { apiVersion: v1, kind: ConfigMap, metadata: { name: Not-A-Name } }
      expectError: { reason: Invalid }
`;
