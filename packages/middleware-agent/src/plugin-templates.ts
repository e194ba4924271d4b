/*
 * Templates that plugins of replicated programs have in common, for `templates` of a plugin. Values: `.Values.port` is the port of the
 * program.
 */

/** ConfigMap of a Pod with the parameters, as `readParameters` reads them. */
export const parametersTemplate = `data:
  parameters.json: {{ dict "hash" .ConfigHash "parameters" .Config | toJson | quote }}
`;

/** Volume of a Pod: size and storage class of the group. */
export const volumeTemplate = `spec:
  accessModes: [ReadWriteOnce]
  {{- with .Storage.storageClass }}
  storageClassName: {{ . | quote }}
  {{- end }}
  resources:
    requests:
      storage: {{ .Storage.size | quote }}
`;

/** Service `<group>-<suffix>` over the Pods of a group with this role. */
export function roleServiceTemplate(suffix: string, role: "primary" | "replica", portName: string): string {
  return `metadata:
  name: {{ .Name }}-${suffix}
spec:
  selector:
    {{- toYaml .SelectorLabels | nindent 4 }}
    middleware.io/role: ${role}
  ports:
    - {name: ${portName}, port: {{ .Values.port }}, targetPort: {{ .Values.port }}, protocol: TCP}
`;
}
