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

/** Arguments of an agent for TLS, as lines of its list. */
export const tlsArguments = `{{- if ne .Tls.Mode "disabled" }}
        - --tls-mode={{ .Tls.Mode }}
        - --tls-dir=/etc/middleware-tls
        - --agent-tls-dir=/etc/middleware-agent-tls
        {{- end }}`;

/** Mounts of a container of an agent for TLS, as lines of its list. */
export const tlsMounts = `{{- if ne .Tls.Mode "disabled" }}
        - {name: tls, mountPath: /etc/middleware-tls, readOnly: true}
        - {name: agent-tls, mountPath: /etc/middleware-agent-tls, readOnly: true}
        {{- end }}`;

/** Volumes of a Pod of an agent for TLS, as lines of its list. The Pod starts when the Secrets have been filled. */
export const tlsVolumes = `{{- if ne .Tls.Mode "disabled" }}
    - name: tls
      secret:
        secretName: {{ .Tls.Secret }}
        defaultMode: 0400
        items: [{key: ca.crt, path: ca.crt}, {key: tls.crt, path: tls.crt}, {key: tls.key, path: tls.key}]
    - name: agent-tls
      secret:
        secretName: {{ .AccessSecret }}
        defaultMode: 0400
        items: [{key: agent-ca.crt, path: ca.crt}, {key: agent.crt, path: tls.crt}, {key: agent.key, path: tls.key}]
    {{- end }}`;

/**
 * Service `<group>-<suffix>` over the Pods of a group with this role. With `tlsPort` in the values, the program has its own port for TLS;
 * otherwise `port` is used with and without TLS.
 */
export function roleServiceTemplate(suffix: string, role: "primary" | "replica", portName: string): string {
  return `metadata:
  name: {{ .Name }}-${suffix}
spec:
  selector:
    {{- toYaml .SelectorLabels | nindent 4 }}
    middleware.io/role: ${role}
  ports:
    {{- if or (not .Values.tlsPort) (ne .Tls.Mode "require") }}
    - {name: ${portName}, port: {{ .Values.port }}, targetPort: {{ .Values.port }}, protocol: TCP}
    {{- end }}
    {{- if and .Values.tlsPort (ne .Tls.Mode "disabled") }}
    - {name: ${portName}-tls, port: {{ .Values.tlsPort }}, targetPort: {{ .Values.tlsPort }}, protocol: TCP}
    {{- end }}
`;
}
