export function liveOpen() { return {}; }
