document.title = "</script><!--";
// fetch("https://comment.example")
