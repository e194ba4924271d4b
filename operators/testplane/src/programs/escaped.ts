/** The kubelet expands `$(NAME)` in values, and reads `$$` as `$`. */
export const escaped = (text: string): string => text.replaceAll("$(", "$$$$(");
