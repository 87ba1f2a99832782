export function embeddingsOpen() { return {}; }
